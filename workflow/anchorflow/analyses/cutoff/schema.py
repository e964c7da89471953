"""Tables of cutoff: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

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

CUTOFF_SUMMARY = table(
    "cutoff_summary",
    "one per (task, sees, layer, measure)",
    *f.OF_TASK,
    SEES,
    FROM_LAYER,
    Column(
        "measure",
        "string",
        "accuracy, label_loyalty, word_loyalty, retained, and accuracy_change, as in "
        "isolation_summary; " + f.PARTS_OF_CHANGE + "; needed, in rows with layer -1: the "
        "smallest layer such that 95 % of accuracy and of label loyalty is kept at it and at every "
        "later layer",
    ),
    Column("mean", "float64", "mean over seeds and draws", "1, or layers"),
    *f.INTERVAL,
    keys="model task sees layer measure",
)
