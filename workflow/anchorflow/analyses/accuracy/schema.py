"""Tables of accuracy."""

from dataclasses import replace

from anchorflow.config.table import SHARE, Measure
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

ACCURACY_SUMMARY = summary_of(
    "accuracy",
    (),
    (
        m.ACCURACY,
        Measure("macro_f1", "mean F1 over classes", SHARE),
        Measure("majority", "share of the most frequent true label", SHARE),
        replace(m.LABEL_MASS, in_full=False),
        m.IN_LABELS,
    ),
    (f.SKIPPED,),
)
