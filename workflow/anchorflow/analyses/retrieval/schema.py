"""Tables of retrieval: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

RETRIEVAL = table(
    "retrieval",
    "one per (example, choice of demonstrations)",
    *f.CELL,
    f.EXAMPLE,
    f.CHOICE,
    f.LABEL,
    *f.SCORED,
    Column(
        "similarity",
        "float64",
        "mean cosine similarity of the demonstrations' texts, as in their own task, with the test "
        "text",
        "1",
    ),
    Column("same_label", "float64", "share of the demonstrations that have the true label", "1"),
    keys="model task seed example choice",
)

RETRIEVAL_SUMMARY = table(
    "retrieval_summary",
    "one per (task, choice of demonstrations, measure)",
    *f.OF_TASK,
    f.CHOICE,
    Column(
        "measure",
        "string",
        "accuracy; similarity and same_label, as in the retrieval table; majority: accuracy of the "
        "demonstrations' most frequent label, in a tie the last one, without a model; on the "
        "examples run with both, and not for random, "
        "accuracy_gain: accuracy minus that with random demonstrations; "
        + f.PARTS_OF_CHANGE
        + " over all examples",
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task choice measure",
)
