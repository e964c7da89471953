"""Claims on the three flows: where each holds, and where not, by hand."""

from collections.abc import Callable
from functools import partial

import polars as pl
import pytest

from constructed import claims as made

KINDS = ("holds", "even", "fails")
# By kind, S_wp, S_pq, and S_ww as shares, early and late; only the early ones count, or only the
# late ones.
FLOWS = {
    "flow_early": (
        ((0.6, 0.1, 0.3), (0.1, 0.7, 0.2)),
        ((0.3, 0.3, 0.4), (0.7, 0.1, 0.2)),
        ((0.1, 0.5, 0.4), (0.7, 0.1, 0.2)),
    ),
    "flow_late": (
        ((0.6, 0.1, 0.3), (0.1, 0.7, 0.2)),
        ((0.1, 0.6, 0.3), (0.3, 0.3, 0.4)),
        ((0.1, 0.6, 0.3), (0.4, 0.1, 0.5)),
    ),
    "flow_wp_over_ww": (
        ((0.6, 0.1, 0.3), (0.1, 0.2, 0.7)),
        ((0.4, 0.2, 0.4), (0.7, 0.2, 0.1)),
        ((0.1, 0.5, 0.4), (0.7, 0.2, 0.1)),
    ),
    "flow_pq_over_ww": (
        ((0.2, 0.1, 0.7), (0.1, 0.7, 0.2)),
        ((0.1, 0.6, 0.3), (0.2, 0.4, 0.4)),
        ((0.1, 0.6, 0.3), (0.4, 0.1, 0.5)),
    ),
}

EFFECTS = {
    "flow_early": (0.5, 0.0, -0.4),
    "flow_late": (0.6, 0.0, -0.3),
    "flow_wp_over_ww": (0.3, 0.0, -0.3),
    "flow_pq_over_ww": (0.5, 0.0, -0.4),
}


def tables_of_flows(claim: str, own: str, control: str = "even") -> made.Tables:
    of_kind = dict(zip(KINDS, FLOWS[claim], strict=True))
    return made.flows_and_controls(of_kind[own], of_kind[control])


# What flows into a token early, where 1 flows into a token of the text: shares 3/4, 1/2, and 1/4.
INTO = {"holds": 3.0, "even": 1.0, "fails": 1 / 3}

EFFECTS_INTO = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of_into(own: str, before: str = "even") -> made.Tables:
    """Flows into label words, and into the tokens before them; late, the other way round."""
    columns = {
        "own_label": made.by_third(INTO[own], 9, 1 / INTO[own]),
        "own_before": made.by_third(INTO[before], 9, 1 / INTO[before]),
        "own_text": made.by_third(1, 1, 1),
    }
    return {"flow": made.flow(columns)}


def test_a_text_without_tokens_of_its_own_does_not_count() -> None:
    tables = tables_of_into("holds")
    without = pl.when(pl.col("example") % 4 == 0).then(None).otherwise(pl.col("own_text"))
    # In others, as much flows into the label word as into a token of the text.
    even = (
        pl.when(pl.col("example") % 4 == 1).then(pl.col("own_text")).otherwise(pl.col("own_label"))
    )
    changed = tables["flow"].with_columns(own_label=even, own_text=without)
    found = made.judged("flow_into_label_words", {"flow": changed}, tables_of_into("even"))
    assert found["effect"] == pytest.approx((0 + 0.25 + 0.25) / 3)
    assert found["seeds"] == len(made.SEEDS)


def test_where_no_text_has_tokens_nothing_is_said() -> None:
    rows = tables_of_into("holds")["flow"]
    changed = rows.with_columns(own_text=pl.lit(None, pl.Float64))
    found = made.judged("flow_into_label_words", {"flow": changed}, tables_of_into("even"))
    made.expect(found, None, "undecided", "undefined: no test text has a value")


# What flows from a token late, where 1 flows from a text token and 3 from a template token, so 2
# from another token: shares 3/4, 1/2, and 1/4. Early, as much as from another token.
FROM = {"holds": 6.0, "even": 2.0, "fails": 2 / 3}


def tables_of_from(own: str, text: str = "even", early: float = 2.0) -> made.Tables:
    """Flows from label words, and from random text tokens in their place."""
    columns = {
        "s_pq": made.by_third(early, 0, FROM[own]),
        "s_pq_text": made.by_third(early, 0, FROM[text]),
        "target_text": made.by_third(1, 1, 1),
        "target_template": made.by_third(3, 1, 3),
    }
    return {"flow": made.flow(columns)}


def test_early_layers_do_not_count_for_what_is_handed_on_late() -> None:
    found = made.judged("flow_from_label_words", tables_of_from("holds", early=6.0))
    assert found["effect"] == pytest.approx(0.25)


CONSTRUCTED = (
    *(
        made.Constructed(
            claim, partial(tables_of_flows, claim), dict(zip(KINDS, of, strict=True)), made.BOTH
        )
        for claim, of in EFFECTS.items()
    ),
    made.Constructed("flow_into_label_words", tables_of_into, EFFECTS_INTO, made.BOTH),
    made.Constructed("flow_from_label_words", tables_of_from, EFFECTS_INTO, made.BOTH),
)


@made.verdicts_of(*CONSTRUCTED)
def test_verdicts(check: Callable[[], None]) -> None:
    check()
