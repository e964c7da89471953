"""What flows to the target from label words beside other tokens, late and rising, by hand."""

import pytest

from constructed.claims import WITH_BOTH, Tables, by_third, expect, judged, saliency

# What flows from a token late, where 1 flows from a text token and 3 from a template token, so 2
# from another token: shares 3/4, 1/2, and 1/4. Early, as much as from another token.
FROM = {"holds": 6.0, "even": 2.0, "fails": 2 / 3}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str, text: str = "even", early: float = 2.0) -> Tables:
    """Flows from label words, and from random text tokens in their place."""
    columns = {
        "s_pq": by_third(early, 0, FROM[own]),
        "s_pq_text": by_third(early, 0, FROM[text]),
        "target_text": by_third(1, 1, 1),
        "target_template": by_third(3, 1, 3),
    }
    return {"saliency": saliency(columns)}


@pytest.mark.parametrize("claim", ["flow_from_label_words", "flow_from_label_words_rises"])
@pytest.mark.parametrize(*WITH_BOTH)
def test_flow_from_label_words(
    own: str, control: str, twin: str, verdict: str, reason: str | None, claim: str
) -> None:
    found = judged(claim, tables_of(own, control), tables_of(twin))
    expect(found, EFFECTS[own], verdict, reason, EFFECTS[control], EFFECTS[twin])


@pytest.mark.parametrize(
    ("claim", "effect"), [("flow_from_label_words", 0.25), ("flow_from_label_words_rises", 0.0)]
)
def test_only_the_rise_is_compared_with_early_layers(claim: str, effect: float) -> None:
    found = judged(claim, tables_of("holds", early=6.0), tables_of("even"))
    assert found["effect"] == pytest.approx(effect)
