"""What anchors retain of full prompts, compared with other methods ([A] Table 2).

Three measures of retention, each compared with each of six methods. As in the paper are the anchors
as text, random tokens, and the best of twenty random draws, chosen on the texts that it is scored
on. Beside them stand the best draw chosen on other texts, and each half of the anchors alone.
"""

from functools import partial
from typing import NamedTuple

import polars as pl

from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    PAPER,
    UNTRAINED,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import UNCHANGED, difference_by_seed, rows_with
from anchorflow.summarize.retention import retention_measures

READS = ("compression",)

DRAWS = 20  # random sets of which [A] takes the best


class _Other(NamedTuple):
    described: str
    method: str
    form: str
    drawn: str = ""  # the method whose draws it chooses from
    chosen: str = ""


_OTHERS = {
    "text": _Other("the anchors as text", "text_anchor", PAPER),
    "random": _Other("random tokens for label words", "hidden_random", PAPER),
    "random_oracle": _Other(
        "the best of 20 random draws",
        "hidden_random_oracle",
        PAPER,
        "hidden_random",
        ", chosen on the same texts",
    ),
    "random_top": _Other(
        "the best of several random draws",
        "hidden_random_top",
        DISCRIMINATING,
        "hidden_random",
        ", chosen on other texts",
    ),
    "format": _Other("template tokens alone", "format_only", DISCRIMINATING),
    "label": _Other("label words alone", "label_only", DISCRIMINATING),
}
# By measure of retention: what is retained, the name of the measure, and its unit.
_RETAINED = {
    "label_loyalty": ("predicted labels", "label loyalty", UNCHANGED),
    "word_loyalty": ("likeliest words", "word loyalty", "Jaccard similarity"),
    "accuracy": ("accuracy", "accuracy", "accuracy"),
}


def anchors_over(run: Run, other: str, measure: str) -> Sampled:
    """A measure of retention with the anchors minus that with another method.

    Raises
    ------
    NotTested
        If one of the methods was not run, there is only one text to choose a draw by, or there are
        fewer draws than the paper has.
    """
    compared = _OTHERS[other]
    rows = run.rows("compression")
    for method in ("hidden_anchor", compared.drawn or compared.method):
        if rows_with(rows, {"method": method, "share": None}).is_empty():
            raise NotTested(f"compression.methods lacks {method}")
    draws = rows.filter(pl.col("method") == "hidden_random")["draw"].n_unique()
    if other == "random_oracle" and draws < DRAWS:
        raise NotTested(f"compression.draws is {draws}, and the paper's is {DRAWS}")
    if other == "random_oracle":
        rows = rows.filter((pl.col("method") != "hidden_random") | (pl.col("draw") < DRAWS))
    measured = retention_measures(rows)
    anchors, others = (
        {"method": each, "share": None} for each in ("hidden_anchor", compared.method)
    )
    if rows_with(measured, others).is_empty():
        raise NotTested("a single test text leaves no other to choose a draw by")
    return difference_by_seed(measured, [anchors], [others], measure)


CLAIMS: tuple[Claim, ...] = tuple(
    Claim(
        f"anchors_over_{name}_{measure}",
        f"Anchors retain {what} better than {other.described}",
        "[A] §3.2, Table 2",
        f"{called} with hidden_anchor minus with {other.method}{other.chosen}",
        unit,
        partial(anchors_over, other=name, measure=measure),
        Control(f"{other.described}, which the effect is the difference from"),
        UNTRAINED,
        other.form,
        place=place,
    )
    for place, (name, other) in enumerate(_OTHERS.items())
    for measure, (what, called, unit) in _RETAINED.items()
)
