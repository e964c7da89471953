"""Agreement of the best head beside that with fewer demonstrations: held out, by hand."""

import polars as pl
import pytest

from anchorflow.schemas.kernel import COUNTS
from constructed.claims import (
    HEAD_TEXTS,
    TOLD,
    WITH_CONTROL,
    Tables,
    cells,
    disagrees,
    expect,
    frame,
    judged,
    kernel,
)

# Every how many texts the best head disagrees with the fewest demonstrations, where with all it
# does on one of four.
FEWER = {"holds": 2, "even": 4, "fails": 0}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str, control: str = "even") -> Tables:
    """The second head is best with all demonstrations, and the first one with the fewest."""
    whole = kernel({(0, 0): 2, (0, 1): 4}, {(0, 0): 0, (0, 1): 4})

    def told(example: int, *every: int | None) -> list[int]:
        model = TOLD[example]
        return [1 - model if each is None or disagrees(example, each) else model for each in every]

    counts = [
        {
            **cell,
            "demonstrations_per_label": count,
            "label": 0,
            "prediction": TOLD[cell["example"]],
            "heads": told(cell["example"], FEWER[own], None),
            "heads_permuted": told(cell["example"], FEWER[control], 0),
        }
        for cell in cells(examples=HEAD_TEXTS)
        for count in (1, 2)
    ]
    table = frame(counts, COUNTS)
    # With more than the fewest, no head ever agrees.
    never = pl.col("heads").list.eval(pl.element() + 2)
    more = pl.when(pl.col("demonstrations_per_label") == 2).then(never).otherwise("heads")
    return {**whole, "counts": table.with_columns(heads=more)}


@pytest.mark.parametrize(*WITH_CONTROL)
def test_head_agreement_grows(own: str, control: str, verdict: str, reason: str | None) -> None:
    found = judged("head_agreement_grows", tables_of(own, control))
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control])


def test_only_texts_with_both_numbers_of_demonstrations_are_compared() -> None:
    tables = tables_of("holds")
    fewer = {**tables, "counts": tables["counts"].filter(pl.col("example") < 8)}
    assert judged("head_agreement_grows", fewer)["examples"] == 3 * 8


def test_one_number_of_demonstrations_leaves_nothing_to_compare() -> None:
    tables = tables_of("holds")
    found = judged("head_agreement_grows", {**tables, "counts": tables["counts"].clear()})
    assert (found["verdict"], found["reason"]) == (
        "not tested",
        "there is only one number of demonstrations",
    )
