"""Loyalty of predictions with label words isolated ([A] §2.2)."""

from anchorflow.config.analysis import (
    INFORMATION,
    Analysis,
    Measured,
    Presented,
    Summary,
    Tabulated,
)
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

ISOLATION = table(
    "isolation",
    "one per (example, variant, positions, draw, side, layers), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.VARIANT,
    f.POSITIONS,
    Column("draw", "int32", "draw of the positions random and text"),
    f.SIDE,
    f.LAYERS,
    f.LABEL,
    *f.SCORED,
    f.TOP_TOKENS,
    keys="model task seed example variant positions draw side layers",
)

ISOLATION_SUMMARY = summary_of(
    "isolation",
    (f.VARIANT, f.POSITIONS, f.SIDE, f.LAYERS),
    (
        *(m.LABEL_LOYALTY, m.WORD_LOYALTY, m.ACCURACY, m.RETAINED),
        *m.ACCURACY_CHANGES,
        *m.IN_VOCABULARY,
    ),
    (
        Column("draws", "int32", "draws of random positions averaged; 1 for label words", "draws"),
        f.SKIPPED,
    ),
)


ANALYSIS = Analysis(
    subject="the loyalty of {} under isolation",
    category=INFORMATION,
    measured=Measured(
        sharded=True, twins=True, message="Isolating label words of {task} in {model}", scored=True
    ),
    summary=Summary({"isolation": "isolation", "prompts": "prompts"}),
    figure=Presented("Loyalty under isolation (Fig. 4 of [A])", settings=("labels",)),
    table=Tabulated(
        "Loyalty under isolation",
        note="Means over tasks and seeds with intervals over seeds, test texts and draws of random "
        "positions; demonstrations fixed per seed. The isolated positions cannot attend to earlier "
        "tokens in the first or last layers; layers is the number of these. label: label words; "
        "random: other tokens of the demonstrations; before and after: the tokens next to each "
        "label word; text: tokens of each text; hidden: none is isolated, but queries see the "
        "prompt's first token and the instruction alone.",
        index=("variant", "layers", "side", "positions"),
        averaged=True,
    ),
)
