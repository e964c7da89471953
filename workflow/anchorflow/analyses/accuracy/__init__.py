"""Accuracy of plain in-context learning, and skipped prompts."""

from anchorflow.config.analysis import ACCURACY, Analysis, Summary, Tabulated

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
