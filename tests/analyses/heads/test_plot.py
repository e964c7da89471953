"""The figure of heads: a panel per score, above the one without training."""

import pytest

from anchorflow.analyses.heads.plot import plot_heads
from anchorflow.analyses.heads.summarize import summarize_heads
from anchorflow.present.style import PAGE
from constructed.heads import heads
from constructed.interventions import prompts
from figure_style import figure_of

COPY = {(0, 0): [1.0], (0, 1): [-4.0], (1, 0): [0.5], (1, 1): [0.0]}
SCORES = {"label_copy": COPY, "direct": COPY}
ZERO = {"label_copy": 0.0}


def test_the_largest_head_above_0_is_named_and_beside_the_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = summarize_heads(heads(SCORES, ZERO), prompts(), 0.95)
    twin = heads({"label_copy": {**COPY, (0, 1): [-0.1]}, "direct": COPY}, ZERO, model="tiny+a")
    figure = figure_of(monkeypatch, plot_heads, summary, untrained=twin)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [
        "direct effect\n1.00 at layer 0, head 0",
        "label copy\n1.00 at layer 0, head 0",
        "untrained: 1.00 at layer 0, head 0",
        "untrained: 1.00 at layer 0, head 0",
    ]
    assert figure.get_figwidth() <= PAGE
    bars = [axes.get_xlabel() for axes in figure.axes if not axes.get_title()]
    assert bars == ["logits"] * 2
    below = {"label_copy": {place: [-1.0] for place in COPY}}
    none = figure_of(monkeypatch, plot_heads, summarize_heads(heads(below, ZERO), prompts(), 0.95))
    assert none.axes[0].get_title() == "label copy\nnone above 0"
    alone = figure_of(monkeypatch, plot_heads, summary)
    assert len([axes for axes in alone.axes if axes.get_title()]) == 2
