"""Attention to the prompt's first token, the sink."""

from anchorflow.config.analysis import (
    INFORMATION,
    Analysis,
    Measured,
    Presented,
    Summary,
    Tabulated,
)

ANALYSIS = Analysis(
    subject="attention to the first token in {}",
    category=INFORMATION,
    measured=Measured(sharded=True, twins=True, message="Attention to the first token in {model}"),
    summary=Summary({"sink": "sink", "prompts": "prompts"}),
    figure=Presented("Attention to the first token"),
    table=Tabulated("Attention to the first token", at_depths=True),
    asked_for="sink.tokens",
)
