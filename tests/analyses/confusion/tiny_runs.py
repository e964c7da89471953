"""Tiny runs of confusion, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.confusion import measure as confusion
from anchorflow.analyses.confusion.measure import measure_confusion
from tiny_cells import TABLE, Limited

LIMITED: dict[str, Limited] = {
    "confusion": lambda model, table: measure_confusion(model, table, 2, 1000)
}
COUNTED = {"confusion": (confusion, {}, lambda m: confusion.measure_confusion(m, TABLE, 2, 1000))}
