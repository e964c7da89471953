"""Table of claims: one per (claim, task or average)."""

import pyarrow as pa

from anchorflow.schemas.fields import AVERAGED_TASK, MODEL, field, table

CLAIMS = table(
    "claims",
    "one per (claim, task or average)",
    MODEL,
    AVERAGED_TASK,
    field("claim", pa.string(), "name of the claim"),
    field("statement", pa.string(), "the claim in words"),
    field("source", pa.string(), "paper and section of the claim"),
    field("compared", pa.string(), "the difference that is above 0 if the claim holds"),
    field("unit", pa.string(), "unit of the difference"),
    field(
        "effect",
        pa.float64(),
        "the difference, mean over seeds; null if it is undefined or not tested",
        "as column unit",
    ),
    field(
        "low",
        pa.float64(),
        "lower end of the bootstrap interval; for time, the lower quartile of full prompts divided "
        "by the upper one of anchors, minus 1, and null over tasks",
        "as effect",
    ),
    field(
        "high",
        pa.float64(),
        "upper end of the bootstrap interval; for time, the upper quartile of full prompts divided "
        "by the lower one of anchors, minus 1, and null over tasks",
        "as effect",
    ),
    field(
        "examples",
        pa.int32(),
        "examples, or pairs of the same example, summed over seeds; for time, batches timed",
        "examples, or batches",
    ),
    field("seeds", pa.int32(), "seeds averaged; over tasks, the maximum of the tasks", "seeds"),
    field("rule", pa.string(), "rule for the verdict"),
    field("verdict", pa.string(), "supported, not supported, inconclusive or not tested"),
    field(
        "reason",
        pa.string(),
        "why the claim is not tested or its effect is undefined, or which tasks are missing from "
        "the average; null otherwise",
    ),
    keys="model task claim",
)
