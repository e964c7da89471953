"""The table of the best heads."""

from anchorflow.analyses.kernel.tabulate import tabulate_kernel
from anchorflow.statistics.by_task import AVERAGE
from constructed.kernel import heads_summary


def test_the_table_lists_the_best_heads_first() -> None:
    rows = tabulate_kernel(heads_summary()).table
    best = rows.group_by("task", maintain_order=True).first()
    assert best.select("task", "layer", "head").rows() == [
        ("news", 1, 0),
        ("reviews", 1, 0),
        (AVERAGE, 1, 0),
    ]
    assert rows["agreement"][0].startswith("1.00 [")
