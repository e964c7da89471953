"""How well saliency and attention predict the effect of cutting edges."""

from collections.abc import Mapping
from typing import Any

from anchorflow.analyses.knockout import CONTROL, EDGES
from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary
from anchorflow.config.errors import InputError
from anchorflow.config.table import CORRELATION, SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas.summaries import summary_of

# Rows of keys and values of some tokens, exchanged for a donor's, by these tokens.
TRANSPLANTED = {
    place: f"{place}_transplanted"
    for place in ("label", "one_label", "text", "template", "demonstrations", "rest")
}

_WHICH = Column(
    "edges",
    "string",
    EDGES.words + "; label_transplanted and others of this form: none cut, but in "
    "faithfulness.transplants, keys and values of these tokens exchanged for those of a donor",
)

FAITHFULNESS = table(
    "faithfulness",
    "one per (example, edges, control, draw, layer), demonstrations fixed; sums over the edges, "
    "for the loss of the label word's first token with either scoring",
    *f.CELL,
    f.EXAMPLE,
    _WHICH,
    CONTROL,
    Column("draw", "int32", "draw of the random edges"),
    f.LAYER,
    Column("saliency", "float64", "significance I_l, as in the table flow", "nats"),
    Column(
        "gradient",
        "float64",
        "predicted change of the loss without the edges: minus attention times gradient; with a "
        "donor's keys and values: their difference times gradient",
        "nats",
    ),
    Column(
        "integrated",
        "float64",
        "the same with the gradient averaged while the layer's attention is scaled from 0 to its "
        "full value; null if faithfulness.steps is 0",
        "nats",
    ),
    Column("attention", "float64", "attention, averaged over heads", "probability"),
    Column(
        "gim",
        "float64",
        "as gradient, with the gradient that flow.gradient describes as gim",
        "nats",
    ),
    Column(
        "change",
        "float64",
        "change of the loss with a donor's keys and values; null for edges, whose change is in the "
        "table knockout",
        "nats",
    ),
    keys="model task seed example edges control draw layer",
)

FAITHFULNESS_SUMMARY = summary_of(
    "faithfulness",
    (
        _WHICH,
        CONTROL,
        Column(
            "estimate",
            "string",
            "what is compared with cutting the edges in single layers: saliency; gradient, "
            "integrated, and gim, which have a sign; attention. For a donor's keys and values: "
            "gradient and gim",
        ),
    ),
    (
        Measure(
            "rank", "correlation of the ranks of layers by size, within each prompt", CORRELATION
        ),
        Measure(
            "rank_difference",
            "rank minus that of another estimate, within each prompt: for gim and integrated, of "
            "gradient; for saliency, of attention",
            (-2.0, 2.0),
        ),
        Measure(
            "sign", "share of layers in which the loss changes in the predicted direction", SHARE
        ),
        Measure(
            "slope",
            "slope of measured on predicted change, by regression through the origin, of absolute "
            "values for estimates without sign",
        ),
    ),
    mean="mean over seeds and draws",
    unit="1, or nats per unit",
)


def check(config: Mapping[str, Any]) -> None:
    """Refuse to compare saliency with cuts that are not made."""
    cut, wanted = config["knockout"], config["faithfulness"]["classes"]
    if config["faithfulness"]["transplants"] and not wanted:
        raise InputError(
            "faithfulness.transplants: without faithfulness.classes the analysis is not run; list "
            "classes there, or leave faithfulness.transplants empty."
        )
    for name in wanted:
        if name not in cut["classes"]:
            raise InputError(
                f"faithfulness.classes: {name} is not among knockout.classes, so there is nothing "
                "to compare it with; add it there, or leave it out."
            )
    if wanted and "single" not in cut["layers"]:
        raise InputError(
            "knockout.layers: faithfulness compares saliency with cutting edges in single layers, "
            "which are not listed; add single, or leave faithfulness.classes empty."
        )


ANALYSIS = Analysis(
    subject="how well saliency predicts the effect of cutting edges in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        follows="knockout",
        message="Measuring saliency of cut edges of {task} in {model}",
    ),
    summary=Summary({"faithfulness": "faithfulness", "knockout": "knockout", "prompts": "prompts"}),
    figure=Presented("Saliency and attention compared with cutting edges"),
    table=Presented("Saliency and attention compared with cutting edges"),
    asked_for="faithfulness.classes",
    check=check,
)
