"""Tables of retrieval: what is measured, and its summary."""

from anchorflow.config.table import SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

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

RETRIEVAL_SUMMARY = summary_of(
    "retrieval",
    (f.CHOICE,),
    (
        m.ACCURACY,
        Measure("similarity", "as in the retrieval table"),
        Measure("same_label", "as in the retrieval table", SHARE),
        Measure(
            "majority",
            "accuracy of the demonstrations' most frequent label, in a tie the last one, without "
            "a model",
            SHARE,
        ),
        *m.IN_VOCABULARY,
        *m.ACCURACY_GAINS,
    ),
    (f.SKIPPED,),
    about="gains are over random demonstrations, on the texts that are run with both; ",
)
