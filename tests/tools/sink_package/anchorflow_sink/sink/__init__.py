"""Attention to the prompt's first tokens, the sink."""

from anchorflow.config.analysis import (
    INFORMATION,
    Analysis,
    Measured,
    Presented,
    Summary,
    Tabulated,
)
from anchorflow.config.table import SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas.summaries import summary_of

SINK = table(
    "sink",
    "one per (example, layer), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    Column("attention", "float64", "attention from the target to the first tokens", "probability"),
    Column("even", "float64", "the same if attention were spread evenly", "probability"),
    keys="model task seed example layer",
)
SINK_SUMMARY = summary_of(
    "sink",
    (f.LAYER,),
    (
        Measure("attention", "attention to the first tokens, mean over heads", SHARE),
        Measure("even", "the same if attention were spread evenly", SHARE),
    ),
)


ANALYSIS = Analysis(
    subject="attention to the first tokens in {}",
    category=INFORMATION,
    measured=Measured(
        sharded=True, twins=True, message="Attention to the first tokens in {model}, {task}"
    ),
    summary=Summary({"sink": "sink", "prompts": "prompts"}),
    figure=Presented("Attention to the first tokens"),
    table=Tabulated("Attention to the first tokens", at_depths=True),
    asked_for="sink.tokens",
)
