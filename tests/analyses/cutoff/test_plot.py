"""The figure of demonstrations left out from some layer on."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from anchorflow.analyses.cutoff import plot
from anchorflow.analyses.cutoff.plot import plot_cutoff
from anchorflow.analyses.cutoff.summarize import summarize_cutoff
from constructed.interventions import cutoff, prompts
from figure_style import STYLE, labels_of, level_of_chance

PLAIN = [1, 1, 0, 0]


def test_every_measure_has_a_line_for_what_is_seen_and_one_for_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"first": [[0, 0, 1, 1], PLAIN, PLAIN], "label": [PLAIN] * 3}
    summary = summarize_cutoff(cutoff(table, PLAIN), prompts(), 0.95)
    figures: list[Figure] = []
    monkeypatch.setattr(plot, "save", lambda figure, paths: figures.append(figure))
    plot_cutoff(summary, labels_of(summary), STYLE, 0.95, {"png": tmp_path / "f"})
    assert len(figures[0].axes) == 4
    for axes in figures[0].axes:
        lines = [line for line in axes.lines if line.get_label() != "chance"]
        curves, needed = lines[::2], lines[1::2]
        assert [len(line.get_xdata()) for line in curves] == [4, 4]
        assert [line.get_xdata()[0] for line in needed] == [1, 0]
    assert level_of_chance(figures[0], 0) == 0.5  # two labels
