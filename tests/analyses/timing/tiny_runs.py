"""Tiny runs of timing, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.timing import measure as timing
from tiny_cells import TABLE

TIMED = {"repetitions": 2, "batch_size": 2, "queries": 4}
COUNTED = {"timing": (timing, TIMED, lambda m: timing.measure_timing(m, TABLE, TIMED))}
