"""Label words' share of attention beside their share of tokens, worked out by hand."""

import polars as pl
import pytest

from anchorflow.measure.segments import segment_names
from anchorflow.schemas.kernel import SEGMENTED
from constructed.claims import WITH_CONTROL, Tables, cells, expect, frame, judged

# A tenth of the tokens each are label words and the template before them.
TOKENS = {"before_text": 2, "text": 5, "before_label": 1, "label": 1, "after": 1}
# Of attention to demonstrations, which is 0.8 in all.
ATTENTION = {"holds": 0.32, "even": 0.08, "fails": 0.04}
EFFECTS = {"holds": 0.3, "even": 0.0, "fails": -0.05}


def tables_of(own: str, before: str) -> Tables:
    """Two layers with two heads, of which the first attends to nothing."""
    attention = {"label": ATTENTION[own], "before_label": ATTENTION[before]}
    rest = (0.8 - sum(attention.values())) / 3
    rows = [
        {
            **cell,
            "layer": layer,
            "head": head,
            "segment": segment,
            "attention": (2 * head) * attention.get(segment, rest),
            "tokens": TOKENS[segment],
            "width": 0.2,
        }
        for cell in cells(examples=4)
        for layer in (0, 1)
        for head in (0, 1)
        for segment in segment_names(["text"])
    ]
    return {"segments": frame(rows, SEGMENTED)}


@pytest.mark.parametrize(*WITH_CONTROL)
def test_attention_lands_on_label_words(
    own: str, control: str, verdict: str, reason: str | None
) -> None:
    found = judged("attention_lands_on_label_words", tables_of(own, control))
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control])


def test_a_layer_that_does_not_attend_to_demonstrations_does_not_count() -> None:
    rows = tables_of("holds", "even")["segments"]
    local = pl.when(pl.col("layer") == 1).then(0).otherwise(pl.col("attention"))
    found = judged("attention_lands_on_label_words", {"segments": rows.with_columns(local)})
    assert found["effect"] == pytest.approx(0.3, abs=1e-6)
