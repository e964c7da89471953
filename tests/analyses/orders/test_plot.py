"""The figure of orders and draws."""

from pathlib import Path

from anchorflow.analyses.orders.plot import plot_orders
from constructed.orders import summary, with_a_task_skipped_whole
from figure_style import STYLE


def test_the_figure_takes_one_task_and_tasks_that_were_skipped_whole(tmp_path: Path) -> None:
    for number, table in enumerate((summary(), with_a_task_skipped_whole())):
        plot_orders(table, STYLE, 0.9, {"png": tmp_path / f"{number}.png"})
        assert (tmp_path / f"{number}.png").stat().st_size > 1000
