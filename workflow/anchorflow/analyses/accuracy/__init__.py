"""Accuracy of plain in-context learning, and skipped prompts."""

from dataclasses import replace

from anchorflow.config.analysis import ACCURACY, Analysis, Summary, Tabulated
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
        *m.CALIBRATION,
    ),
    (f.SKIPPED,),
)


ANALYSIS = Analysis(
    subject="the accuracy of {}",
    category=ACCURACY,
    summary=Summary({"predictions": "attention/predictions", "prompts": "prompts"}),
    table=Tabulated(
        "Accuracy of in-context learning",
        note="Means over seeds with intervals over seeds and test texts; demonstrations fixed per "
        "seed. skipped: prompts that are not run, mostly since they exceed the model's context.",
        index=("task", "examples", "texts", "seeds", "skipped"),
    ),
)
