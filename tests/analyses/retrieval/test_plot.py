"""The figure of chosen demonstrations."""

from pathlib import Path

import polars as pl

from anchorflow.analyses.retrieval.plot import _look, plot_retrieval
from anchorflow.analyses.retrieval.summarize import CHOICES, summarize_retrieval
from constructed.retrieval import prompts_of, rows_of, with_a_task_skipped_whole
from figure_style import STYLE, labels_of


def test_the_figure_takes_one_task_and_tasks_that_lack_a_choice(tmp_path: Path) -> None:
    table = with_a_task_skipped_whole()
    plot_retrieval(table, labels_of(table), STYLE, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000
    single = summarize_retrieval(rows_of("news", 1), *prompts_of("news", 1), 0.9)
    plot_retrieval(single, labels_of(single), STYLE, 0.9, {"png": tmp_path / "single.png"})
    assert (tmp_path / "single.png").stat().st_size > 1000


def test_the_figure_takes_every_choice_and_tells_each_from_the_others(tmp_path: Path) -> None:
    rows, (prompts, retrieved) = rows_of("news", 2), prompts_of("news", 2)
    others = [choice for choice in CHOICES if choice not in ("random", "nearest")]
    like_nearest = [rows.filter(choice="nearest").with_columns(choice=pl.lit(c)) for c in others]
    shown = [retrieved.with_columns(demonstrations=pl.lit(choice)) for choice in others]
    summary = summarize_retrieval(
        pl.concat([rows, *like_nearest]), prompts, pl.concat([retrieved, *shown]), 0.9
    )
    assert summary["choice"].unique(maintain_order=True).to_list() == list(CHOICES)
    plot_retrieval(summary, labels_of(summary), STYLE, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000
    looks = {(look["color"], look["marker"]) for c in CHOICES for look in [_look(c, "abc")]}
    assert len(looks) == len(CHOICES)
