"""Context cutoff: from which layer on a model no longer needs the demonstrations."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary, Tabulated
from anchorflow.config.table import Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

SEES = Column(
    "sees",
    "string",
    "what queries still see of the demonstrations: first, the prompt's first token and the "
    "instruction; label, these and all tokens of label words; random, the first token, the "
    "instruction, and the same number of other tokens",
)

FROM_LAYER = Column(
    "layer",
    "int32",
    "first layer in which they see only this; the number of layers for the unmodified run",
)

CUTOFF = table(
    "cutoff",
    "one per (example, sees, draw, layer), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    SEES,
    Column("draw", "int32", "draw of the random tokens"),
    FROM_LAYER,
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    keys="model task seed example sees draw layer",
)

NEEDED = Measure(
    "needed",
    "in rows with layer -1, the smallest layer such that 95 % of accuracy and of label loyalty is "
    "kept at it and at every later layer",
)
CUTOFF_SUMMARY = summary_of(
    "cutoff",
    (SEES, FROM_LAYER),
    (
        *(m.ACCURACY, m.LABEL_LOYALTY, m.WORD_LOYALTY, m.RETAINED),
        *m.ACCURACY_CHANGES,
        *m.IN_VOCABULARY,
        NEEDED,
    ),
    mean="mean over seeds and draws",
    unit="1, or layers",
)


ANALYSIS = Analysis(
    subject="context cutoff in {}",
    category=CAUSES,
    measured=Measured(
        sharded=True,
        twins=True,
        message="Hiding the demonstrations of {task} from each layer on in {model}",
        scored=True,
    ),
    summary=Summary({"cutoff": "cutoff", "prompts": "prompts"}),
    figure=Presented("Context cutoff: layers that need the demonstrations", settings=("labels",)),
    table=Tabulated(
        "First layer that needs no demonstrations",
        note="Means over seeds with intervals over seeds and test texts; demonstrations fixed per "
        "seed. From this layer on, queries see, first: only the prompt's first token and the "
        "instruction; label: these and the label words; random: these and the same number of "
        "random tokens.",
        index=("task",),
        column="sees",
        measure="needed",
    ),
    asked_for="cutoff.sees",
)
