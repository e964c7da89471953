"""The best heads of middle layers beside those of other layers: held-out agreement by hand."""

import pytest

from constructed.claims import ALONE, HEAD_TEXTS, LAYERS, Tables, expect, judged, kernel

# Every how many texts the better one of a layer's two heads disagrees: agreement of 1, 3/4, 1/2.
MIDDLE = {"holds": 0, "even": 4, "fails": 2}
EFFECTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def tables_of(own: str, layers: int = LAYERS) -> Tables:
    """The other head of each layer never agrees."""
    better = [MIDDLE[own] if layer in (2, 3) else 4 for layer in range(layers)]
    return kernel(
        {(layer, head): (1, better[layer])[head] for layer in range(layers) for head in (0, 1)}
    )


@pytest.mark.parametrize(*ALONE)
def test_best_heads_in_the_middle(own: str, verdict: str, reason: str | None) -> None:
    found = judged("best_heads_in_the_middle", tables_of(own))
    expect(found, EFFECTS[own], verdict, reason)
    assert found["examples"] == 3 * HEAD_TEXTS


def test_two_layers_have_no_middle() -> None:
    found = judged("best_heads_in_the_middle", tables_of("holds", 2))
    said = "a middle needs three layers or more"
    assert (found["verdict"], found["reason"]) == ("not tested", said)
