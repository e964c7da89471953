"""Table of what a run cost."""

from anchorflow.config.table import Column, table

COSTS = table(
    "costs",
    "one per analysis, and all together; only a CSV file",
    Column("analysis", "string", "the analysis, preparation, or all"),
    Column("seeds", "int64", "seeds measured; null if it has none", "seeds"),
    Column("test_texts", "int64", "test texts, summed over tasks and seeds", "texts"),
    Column("distinct_texts", "int64", "distinct ones of each task, summed over tasks", "texts"),
    Column("cpu_seconds", "float64", "processor time of its jobs", "s"),
    Column("untrained_cpu_seconds", "float64", "the part of untrained networks", "s"),
    Column("seconds", "float64", "duration of its jobs, added up", "s"),
    Column("jobs", "int64", "jobs", "jobs"),
    keys="analysis",
)
