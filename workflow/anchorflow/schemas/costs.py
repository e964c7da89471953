"""Table of what a run cost."""

import pyarrow as pa

from anchorflow.schemas import fields as f

COSTS = f.table(
    "costs",
    "one per analysis, and all together; only a CSV file",
    f.field("analysis", pa.string(), "the analysis, preparation, or all"),
    f.field("seeds", pa.int64(), "seeds measured; null if it has none", "seeds"),
    f.field("test_texts", pa.int64(), "test texts, summed over tasks and seeds", "texts"),
    f.field("distinct_texts", pa.int64(), "distinct ones of each task, summed over tasks", "texts"),
    f.field("cpu_seconds", pa.float64(), "processor time of its jobs", "s"),
    f.field("untrained_cpu_seconds", pa.float64(), "the part of untrained networks", "s"),
    f.field("seconds", pa.float64(), "duration of its jobs, added up", "s"),
    f.field("jobs", pa.int64(), "jobs", "jobs"),
    keys="analysis",
)
