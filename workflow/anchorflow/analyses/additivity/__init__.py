"""Whether what a head takes from several demonstrations is what it takes from each one alone."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary, Tabulated
from anchorflow.config.table import AT_MOST_ALL, CORRELATION, SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas.summaries import summary_of

KIND = Column(
    "kind",
    "string",
    "composed: of the prompts with each demonstration alone; other_query: the same, before another "
    "text; deranged: the same, where every class has the label word of another one; in rows with "
    "layer -1 also whole: the prompt itself; one: a single demonstration alone, mean over them",
)
LAYER = Column("layer", "int32", "transformer layer, counted from 0; -1 for answers")

ADDITIVITY = table(
    "additivity",
    "one per (example, kind, layer), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    KIND,
    LAYER,
    Column(
        "explained",
        "float64",
        "1 - |w - c|² / |w|² for w, what all heads of the layer take from the demonstrations at "
        "the target, and c, the same as composed; null for answers",
        "1",
    ),
    Column("cosine", "float64", "cosine of w and c; null for answers", "1"),
    Column(
        "log_odds",
        "float64",
        "log odds of the true label among labels, with the composed outputs of all heads and "
        "layers in place of the prompt's at the target; null for layers",
        "nats",
    ),
    Column("accuracy", "float64", "whether the likeliest label is the true one, likewise", "1"),
    keys="model task seed example kind layer",
)

OF_LAYERS = (
    Measure("explained", "mean of this column", AT_MOST_ALL),
    Measure("cosine", "mean of this column", CORRELATION),
)
OF_ANSWERS = (
    Measure("log_odds", "mean of this column"),
    Measure("accuracy", "mean of this column", SHARE),
    Measure(
        "gained",
        "log odds minus those of one demonstration, as a share of those of the whole prompt minus "
        "the same",
    ),
)
ADDITIVITY_SUMMARY = summary_of(
    "additivity", (KIND, LAYER), (*OF_LAYERS, *OF_ANSWERS), unit="1 or nats"
)


ANALYSIS = Analysis(
    subject="how demonstrations add up in {}",
    category=CAUSES,
    measured=Measured(
        twins=True, message="Composing what {model} takes from single demonstrations of {task}"
    ),
    summary=Summary({"additivity": "additivity", "prompts": "prompts"}),
    figure=Presented("What heads take from demonstrations, composed of single ones"),
    table=Tabulated(
        "What heads take from demonstrations, composed of single ones",
        note="Means over seeds with intervals over seeds and test texts; demonstrations fixed per "
        "seed. Layer -1: answers.",
        index=("task", "kind", "layer"),
        at_depths=False,
    ),
    asked_for="additivity.controls",
)
