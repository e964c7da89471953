"""The figure that compares estimates with cutting."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from anchorflow.analyses.faithfulness import plot
from anchorflow.analyses.faithfulness.plot import plot_faithfulness
from anchorflow.analyses.faithfulness.summarize import summarize_faithfulness
from constructed.interventions import cuts, faithfulness, prompts
from figure_style import STYLE


@pytest.mark.parametrize("integrated", [[0.1, 0.2, 0.3], [None, None, None]])
def test_the_slope_is_shown_of_estimates_with_a_sign_alone(
    integrated: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {name: [0.1, 0.3, 0.2] for name in ("saliency", "gradient", "attention")}
    told["integrated"] = integrated
    summary = summarize_faithfulness(faithfulness(told), cuts([1.0, 2.0, 3.0]), prompts(), 0.95)
    figures: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, paths: figures.append(figure))
    plot_faithfulness(summary, STYLE, 0.95, {"png": tmp_path / "f"})
    shown = [sum(len(c.lines[0].get_xdata()) for c in axes.containers) for axes in figures[0].axes]
    assert shown == ([4, 2, 2] if integrated[0] else [3, 1, 1])
