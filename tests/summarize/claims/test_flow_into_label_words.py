"""What flows into label words beside text tokens, early: shares worked out by hand."""

import polars as pl
import pytest

from constructed.claims import SEEDS, WITH_BOTH, Tables, by_third, expect, judged, saliency

# What flows into a token early, where 1 flows into a token of the text: shares 3/4, 1/2, and 1/4.
INTO = {"holds": 3.0, "even": 1.0, "fails": 1 / 3}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str, before: str = "even") -> Tables:
    """Flows into label words, and into the tokens before them; late, the other way round."""
    columns = {
        "s_wp": by_third(INTO[own], 9, 1 / INTO[own]),
        "s_wp_before": by_third(INTO[before], 9, 1 / INTO[before]),
        "s_wp_text": by_third(1, 1, 1),
    }
    return {"saliency": saliency(columns)}


@pytest.mark.parametrize(*WITH_BOTH)
def test_flow_into_label_words(
    own: str, control: str, twin: str, verdict: str, reason: str | None
) -> None:
    found = judged("flow_into_label_words", tables_of(own, control), tables_of(twin))
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control], EFFECTS[twin])


def test_a_text_without_tokens_of_its_own_does_not_count() -> None:
    tables = tables_of("holds")
    without = pl.when(pl.col("example") % 4 == 0).then(None).otherwise(pl.col("s_wp_text"))
    # In others, as much flows into the label word as into a token of the text.
    even = pl.when(pl.col("example") % 4 == 1).then(pl.col("s_wp_text")).otherwise(pl.col("s_wp"))
    changed = tables["saliency"].with_columns(s_wp=even, s_wp_text=without)
    found = judged("flow_into_label_words", {"saliency": changed}, tables_of("even"))
    assert found["effect"] == pytest.approx((0 + 0.25 + 0.25) / 3)
    assert found["seeds"] == len(SEEDS)


def test_where_no_text_has_tokens_nothing_is_said() -> None:
    rows = tables_of("holds")["saliency"]
    changed = rows.with_columns(s_wp_text=pl.lit(None, pl.Float64))
    found = judged("flow_into_label_words", {"saliency": changed}, tables_of("even"))
    expect(found, None, "inconclusive", "undefined: no example has a value")
