"""Re-weighted attention to label words, β, and its baselines ([A] §3.1, Table 1)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anchorflow.config.analysis import ANCHORS, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError
from anchorflow.config.table import DIFFERENCE, SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

_LEARNING_RATE = Column("learning_rate", "float64", "step size of Adam", "1")


DESCENT = table(
    "descent",
    "one per (learning rate, fold, step)",
    *f.CELL,
    _LEARNING_RATE,
    Column(
        "fold", "int32", "held-out half of the training texts, 0 or 1; null: the fit to all of them"
    ),
    Column("epoch", "int32", "epoch"),
    Column("step", "int32", "step of gradient descent, over all epochs"),
    Column("loss", "float64", "mean cross-entropy of the step's texts before the step", "nats"),
    keys="model task seed learning_rate fold step",
)

LEARNING_RATES = table(
    "learning_rates",
    "one per learning rate in the configuration",
    *f.CELL,
    _LEARNING_RATE,
    Column(
        "held_out_loss",
        "float64",
        "mean cross-entropy on held-out training texts; infinite if a fit diverged; null if there "
        "is only one rate",
        "nats",
    ),
    Column("chosen", "bool", "whether β is fitted with this rate"),
    keys="model task seed learning_rate",
)

REWEIGHTING = table(
    "reweighting",
    "one per (example, method), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.METHOD,
    f.LABEL,
    *f.SCORED,
    keys="model task seed example method",
)

INPUT_ANSWERS = table(
    "input_answers",
    "one per (baseline, example, method): an additional input of a baseline, such as one without "
    "content, after the fixed demonstrations",
    *f.CELL,
    Column("baseline", "string", "the baseline whose input it is"),
    f.EXAMPLE,
    replace(f.METHOD, words="vanilla, or reweighted and so on, as in the table reweighting"),
    Column("probabilities", "list<float32>", "softmax over the label words", "probability"),
    keys="model task seed baseline example method",
)

ROUTING = table(
    "routing",
    "one per (layer, part, number); no rows unless reweighting.routing_rank asks for them",
    *f.CELL,
    f.LAYER,
    Column(
        "part",
        "string",
        "direction: α of a pair of principal directions of queries and keys; head: γ of a head. "
        "The target's logits of attention change by γ (q U) diag(α) (k U')ᵀ",
    ),
    Column("number", "int32", "which direction, the principal one first, or which head"),
    Column("value", "float32", "fitted value", "1"),
    keys="model task seed layer part number",
)

REWEIGHTING_SUMMARY = summary_of(
    "reweighting",
    (f.METHOD,),
    (
        m.ACCURACY,
        Measure("macro_f1", "mean F1 over classes", SHARE),
        m.ACCURACY_GAINS[0],
        Measure("macro_f1_gain", "macro_f1 minus vanilla's", DIFFERENCE),
        *m.ACCURACY_GAINS[1:],
        *m.IN_VOCABULARY,
        *(
            Measure(
                f"{name}_bias",
                f"how far a prompt prefers labels for {inputs}: 1 minus the entropy of the mean "
                "label probabilities, in units of that of equal ones",
                SHARE,
            )
            for name, inputs in (
                ("contextual", "inputs without content, those of the baseline calibrated"),
                ("domain", "random words of the test texts, those of domain_calibrated"),
            )
        ),
        *m.CALIBRATION,
        Measure("parameters", "numbers that are fitted to the training texts"),
    ),
    (
        f.SKIPPED,
        Column("published", "float64", "[A] Table 1, if model and task are the paper's", "1"),
    ),
    about="gains are over vanilla, on the same texts; ",
)


def check(config: Mapping[str, Any]) -> None:
    """Refuse numbers of texts that leave nothing to choose by, or to add."""
    spec, fixed = config["reweighting"], config["demonstrations_per_label"]
    most = fixed + spec["examples_per_label"]
    if len(spec["learning_rates"]) > 1 and spec["examples_per_label"] < 2:
        raise InputError(
            "reweighting.examples_per_label: 1 leaves no training text to hold out for choosing "
            "among several learning_rates; give two or more, or a single rate."
        )
    for name, task in config["tasks"].items():
        wanted = task.get("many_demonstrations")
        if wanted is not None and not fixed < wanted <= most:
            raise InputError(
                f"tasks.{name}.many_demonstrations: {wanted} should be more than "
                f"demonstrations_per_label ({fixed}) and at most that plus "
                f"reweighting.examples_per_label ({most})."
            )


ANALYSIS = Analysis(
    subject="the gain from re-weighting in {}",
    category=ANCHORS,
    measured=Measured(
        {
            "beta": "beta",
            "beta_anchor": "beta",
            "descent": "descent",
            "learning_rates": "learning_rates",
            "predictions": "reweighting",
            "inputs": "input_answers",
            "routing": "routing",
            "prompts": "prompts",
        }
    ),
    summary=Summary(
        {
            "predictions": "reweighting/predictions",
            "auxiliary": "reweighting/prompts",
            "inputs": "reweighting/inputs",
            "beta": "reweighting/beta",
            "routing": "reweighting/routing",
            "prompts": "prompts",
        },
        ("statistics", "baselines"),
    ),
    figure=Presented("Fitted weights by layer and head", {"beta": "reweighting/beta"}),
    table=Presented("Re-weighting and its baselines (Table 1 of [A])"),
    check=check,
)
