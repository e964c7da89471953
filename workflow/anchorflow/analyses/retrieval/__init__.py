"""Chosen training texts as demonstrations ([K] §4.2)."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import KERNEL_REGRESSION, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError
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


def check(config: Mapping[str, Any]) -> None:
    """Refuse texts of another task in a run of one task."""
    if "other_task" in config["retrieval"]["choices"] and len(config["tasks"]) == 1:
        raise InputError(
            f"retrieval.choices: other_task takes texts of another task of the run, but "
            f"{next(iter(config['tasks']))} is the only one; add a task, or leave it out."
        )


ANALYSIS = Analysis(
    subject="the gain from chosen demonstrations in {}",
    category=KERNEL_REGRESSION,
    measured=Measured(
        {"samples": "samples", "prompts": "prompts", "predictions": "retrieval"}, sharded=True
    ),
    summary=Summary(
        {
            "predictions": "retrieval/predictions",
            "retrieved": "retrieval/prompts",
            "prompts": "prompts",
        }
    ),
    figure=Presented("Chosen demonstrations", settings=("labels",)),
    table=Presented("Chosen demonstrations"),
    asked_for="retrieval.choices",
    check=check,
)
