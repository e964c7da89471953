"""Predictions with edges of attention cut, by class and layer."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary
from anchorflow.config.table import DIFFERENCE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

EDGES = Column(
    "edges",
    "string",
    "which edges of attention, described in the configuration reference at knockout.classes; "
    "none: the unmodified run",
)

CONTROL = Column(
    "control",
    "bool",
    "true: instead of these edges, the same number of random ones of the same rows over similar "
    "distances",
)

BAND = Column(
    "band",
    "string",
    "which layers: single, each one alone; first, middle, and last third; all; none",
)

FIRST_LAYER = Column("layer", "int32", "first of these layers; -1 for none")

LAYERS = Column("layers", "int32", "number of these layers", "layers")

KNOCKOUT = table(
    "knockout",
    "one per (example, edges, control, draw, band, layer), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    EDGES,
    CONTROL,
    Column("draw", "int32", "draw of the random edges"),
    BAND,
    FIRST_LAYER,
    LAYERS,
    Column("cut", "int64", "edges that were cut, summed over the layers", "edges"),
    f.LABEL,
    *f.SCORED,
    Column(
        "loss",
        "float64",
        "cross-entropy of the true label among the label words' first tokens",
        "nats",
    ),
    f.TOP_TOKENS,
    keys="model task seed example edges control draw band layer",
)

KNOCKOUT_SUMMARY = summary_of(
    "knockout",
    (EDGES, CONTROL, BAND, FIRST_LAYER, LAYERS),
    (
        Measure("loss_change", "change of the true label's cross-entropy, in nats"),
        Measure("log_odds_change", "change of the true label's log odds among the label words"),
        Measure("probability_change", "change of the true label's probability", DIFFERENCE),
        m.LABEL_LOYALTY,
        m.WORD_LOYALTY,
        *m.ACCURACY_CHANGES,
        *m.IN_VOCABULARY,
    ),
    mean="mean over seeds and draws",
    unit="nats or 1",
)


ANALYSIS = Analysis(
    subject="the effect of cutting attention edges in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Cutting edges of attention of {task} in {model}",
        scored=True,
    ),
    summary=Summary({"knockout": "knockout", "prompts": "prompts"}),
    figure=Presented("Edges of attention cut"),
    table=Presented("Edges of attention cut"),
    asked_for="knockout.classes",
)
