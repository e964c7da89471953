"""Scores of every attention head: what it looks at, and what it writes into the answer."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary

ANALYSIS = Analysis(
    subject="the scores of the heads of {}",
    category=CAUSES,
    measured=Measured(
        twins=True,
        message="Scoring the heads of {model} for {task}",
        reads={"prompts": "prompts", "tokenizer": "tokenizers", "model": "models"},
    ),
    summary=Summary({"heads": "heads", "prompts": "prompts"}),
    figure=Presented("Scores of attention heads", untrained={"untrained": "heads"}),
    table=Presented("The heads of the highest scores"),
    asked_for="heads.scores",
)
