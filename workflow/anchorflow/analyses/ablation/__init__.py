"""Predictions without the heads of the highest scores."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError
from anchorflow.config.table import SHARE, SIZE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

SCORE = Column(
    "score",
    "string",
    "score whose highest heads are taken away, as in the table heads; a without b: heads of the "
    "highest a among those that are not of the highest b; none: the intact run; alone: the intact "
    "model without demonstrations",
)
CONTROL = Column(
    "control", "bool", "true: instead of these heads, as many random ones of the same layers"
)
WHERE = Column(
    "where",
    "string",
    "at which tokens the heads' outputs are replaced: target, everywhere; none: nowhere",
)
BY = Column(
    "by",
    "string",
    "what replaces a head's output: mean, over the task's other prompts, classes counting alike "
    "(everywhere: over all tokens of the seed's prompts); zero; other, that in the next prompt; "
    "none",
)
TAKEN = Column("share", "float64", "share of all heads that are taken away", "1")

ABLATION = table(
    "ablation",
    "one per (example, score, control, draw, where, by, share), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    SCORE,
    CONTROL,
    Column("draw", "int32", "draw of the random heads, counted from 0"),
    WHERE,
    BY,
    TAKEN,
    Column("heads", "int32", "number of heads taken away", "heads"),
    f.LABEL,
    *f.PREDICTED,
    Column(
        "label_mass",
        "float32",
        "probability, in the whole vocabulary, that the next token is the first of a label word",
        "probability",
    ),
    Column(
        "in_labels",
        "bool",
        "whether the likeliest token of the whole vocabulary is the first of a label word",
    ),
    Column(
        "divergence",
        "float64",
        "Kullback-Leibler divergence of the next-token distribution over the whole vocabulary from "
        "that of the intact run",
        "nats",
    ),
    keys="model task seed example score control draw where by share",
)

AREAS = (m.ACCURACY, m.IN_LABELS)
ABLATION_SUMMARY = summary_of(
    "ablation",
    (
        SCORE,
        CONTROL,
        WHERE,
        BY,
        Column("share", "float64", "share of all heads that are taken away; null for areas", "1"),
    ),
    (
        *(m.ACCURACY, m.IN_LABELS, m.LABEL_MASS),
        Measure("divergence", "mean of this column", SIZE),
        *(
            Measure(f"{measure.name}_{area}", f"mean of {measure.name} over {over}", SHARE)
            for measure in AREAS
            for area, over in (
                ("area", "the share, by the trapezoid rule"),
                ("log_area", "the logarithm of the share"),
            )
        ),
    ),
    mean="mean over seeds and draws",
    unit="1 or nats",
)


_GROUPS = {
    "direct": "writing",
    "label_copy": "writing",
    "task_recognition_share": "task",
    "task_learning_share": "task",
    "gathers": "gathering",
    "to_right": "gathering",
}


def check(config: Mapping[str, Any]) -> None:
    """Refuse to take away heads by scores that are not measured."""
    names = [name for s in config["ablation"]["scores"] for name in s.split(" without ")]
    for score in names:
        group = _GROUPS.get(score, score)
        if group not in config["heads"]["scores"]:
            raise InputError(
                f"ablation.scores: {score} needs {group} among heads.scores; add it there, or "
                "leave the score out."
            )


ANALYSIS = Analysis(
    subject="predictions of {} without some of its heads",
    category=CAUSES,
    measured=Measured(
        message="Taking heads of {model} away for {task}",
        reads={"prompts": "prompts", "heads": "heads", "model": "models"},
    ),
    summary=Summary({"ablation": "ablation", "prompts": "prompts"}),
    figure=Presented("Heads taken away"),
    table=Presented("Heads taken away"),
    asked_for="ablation.scores",
    check=check,
)
