"""The figure of orders and draws."""

from pathlib import Path

from anchorflow.plot.order_effects import plot_order_effects
from constructed.order_effects import summary, with_a_task_skipped_whole
from figure_style import STYLE


def test_the_figure_takes_one_task_and_tasks_that_were_skipped_whole(tmp_path: Path) -> None:
    for number, table in enumerate((summary(), with_a_task_skipped_whole())):
        plot_order_effects(table, STYLE, 0.9, {"png": tmp_path / f"{number}.png"})
        assert (tmp_path / f"{number}.png").stat().st_size > 1000
