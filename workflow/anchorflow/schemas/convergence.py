"""Table of convergence: one per (kernel, way to invert, number of demonstrations, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f
from anchorflow.schemas.theory import KERNEL, RANK, RIDGE

CONVERGENCE = f.table(
    "convergence",
    "one per (kernel, ridge, rank, number of demonstrations or null, measure); of no language "
    "model, and so without a claim, since those are of a model against its untrained twin",
    KERNEL,
    RIDGE,
    RANK,
    f.field(
        "demonstrations",
        pa.int32(),
        "demonstrations n of each prompt; null for slope and floor, which are over all n",
        "pairs",
    ),
    f.field(
        "measure",
        pa.string(),
        "distance, L1, from the exact posterior; accuracy of its arg max; improper, share of "
        "predictions that were made a distribution; excess, distance minus that of the theorem's "
        "kernel with the first ridge, paired by world; slope, of log mean distance against log n "
        "by least squares; floor, of the larger half of n, distance against 1/√n by least squares, "
        "the value at 0",
    ),
    f.field("mean", pa.float64(), "mean over worlds; slope and floor are of mean distances", "1"),
    f.field("low", pa.float64(), "lower end of the interval over worlds", "as mean"),
    f.field("high", pa.float64(), "upper end of the interval over worlds", "as mean"),
    f.field("worlds", pa.int32(), "worlds averaged", "worlds"),
    f.field(
        "published",
        pa.float64(),
        "Table 3 of [K], and slope and floor of its row in the same way; null where it has none",
        "as mean",
    ),
    keys="kernel ridge rank demonstrations measure",
)
