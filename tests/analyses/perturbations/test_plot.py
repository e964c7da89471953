"""The figure of perturbed test texts."""

from pathlib import Path

from anchorflow.analyses.perturbations.plot import plot_perturbations
from anchorflow.analyses.perturbations.summarize import summarize_perturbations
from constructed.perturbations import tables_of, with_a_task_skipped_whole
from figure_style import STYLE, labels_of


def test_the_figure_takes_one_task_and_tasks_that_were_skipped_whole(tmp_path: Path) -> None:
    table = with_a_task_skipped_whole()
    plot_perturbations(table, labels_of(table), STYLE, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000
    single = summarize_perturbations(**tables_of("news", 1), confidence=0.9)
    plot_perturbations(single, labels_of(single), STYLE, 0.9, {"png": tmp_path / "single.png"})
    assert (tmp_path / "single.png").stat().st_size > 1000
