"""The figure of similar demonstrations."""

from pathlib import Path

from anchorflow.plot.neighbors import plot_neighbors
from anchorflow.summarize.neighbors import summarize_neighbors
from constructed.neighbors import prompts_of, rows_of, with_a_task_skipped_whole
from figure_style import STYLE


def test_the_figure_takes_one_task_and_tasks_that_lack_a_choice(tmp_path: Path) -> None:
    plot_neighbors(with_a_task_skipped_whole(), STYLE, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000
    single = summarize_neighbors(rows_of("news", 1), *prompts_of("news", 1), 0.9)
    plot_neighbors(single, STYLE, 0.9, {"png": tmp_path / "single.png"})
    assert (tmp_path / "single.png").stat().st_size > 1000
