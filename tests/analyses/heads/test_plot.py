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


def test_the_largest_head_is_named_by_its_sign_and_beside_the_twin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = summarize_heads(heads(SCORES, ZERO), prompts(), 0.95)
    twin = heads({"label_copy": {**COPY, (0, 1): [-0.1]}, "direct": COPY}, ZERO, model="tiny+a")
    figure = figure_of(monkeypatch, plot_heads, summary, untrained=twin)
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == [
        "direct effect\n-4.00 at 0.1",
        "label copy\n-4.00 at 0.1",
        "untrained: -4.00 at 0.1",
        "untrained: 1.00 at 0.0",
    ]
    assert figure.get_figwidth() <= PAGE
    alone = figure_of(monkeypatch, plot_heads, summary)
    assert len([axes for axes in alone.axes if axes.get_title()]) == 2
