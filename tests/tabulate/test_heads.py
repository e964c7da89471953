"""The table of the best heads."""

from anchorflow.summarize.by_task import AVERAGE
from anchorflow.tabulate.heads import tabulate_heads
from constructed.heads import summary


def test_the_table_lists_the_best_heads_first() -> None:
    rows = tabulate_heads(summary(), most=1).table
    assert rows.select("task", "layer", "head").rows() == [
        ("news", 1, 0),
        ("reviews", 1, 0),
        (AVERAGE, 1, 0),
    ]
    assert rows["agreement"][0].startswith("1.00 [")
