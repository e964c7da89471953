"""Predictions with random and nearest demonstrations, for gains worked out by hand."""

import polars as pl

from anchorflow.analyses.retrieval import RETRIEVAL
from anchorflow.analyses.retrieval.summarize import summarize_retrieval
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

ANSWERS = {"random": [0, 1, 0, 1], "nearest": [0, 0, 1, 0]}
TRUTH = [0, 0, 1, 1]  # two right with random ones, three with nearest
# Labels shown, of which the last counts where both are as frequent: all texts have label 1 by them,
# or the first three have 0.
SHOWN = {
    "random": [[0, 1], [1, 0, 1], [1, 1, 0], [0, 1]],
    "nearest": [[0, 0, 1], [1, 0], [0, 0, 1], [1, 1]],
}


def rows_of(task: str, seeds: int, left_out: tuple[str, int] | None = None) -> pl.DataFrame:
    """The answers above for every seed, without one choice's example."""
    rows = [
        {"seed": seed, "example": example, "choice": choice, "label": TRUTH[example]}
        | {"prediction": answer, "probabilities": [1.0 - answer, float(answer)]}
        | {"label_mass": 0.5 if choice == "random" else example / 4}
        | {"in_labels": choice == "random" or example < 3}
        | {"similarity": 0.2 if choice == "random" else example / 4, "same_label": 0.5}
        for seed in range(seeds)
        for choice, answers in ANSWERS.items()
        for example, answer in enumerate(answers)
        if (choice, example) != left_out
    ]
    return frame(rows, RETRIEVAL, model="m", task=task)


def prompts_of(
    task: str, seeds: int, left_out: tuple[str, int] | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The run's prompts, whose fixed demonstrations are the random ones; and the retrieved ones."""
    rows = [
        {"model": "m", "task": task, "seed": seed}
        | {"demonstrations": "fixed" if choice == "random" else choice, "example": example}
        | {"skipped": "too long" if left_out in [(choice, example), (choice, -1)] else None}
        | {"demonstration_labels": SHOWN[choice][example]}
        for seed in range(seeds)
        for choice in ANSWERS
        for example in range(4)
    ]
    both = frame(rows, PROMPTS)
    fixed = both.filter(demonstrations="fixed")
    other = fixed.with_columns(demonstrations=pl.lit("per_example"), skipped=pl.lit("too long"))
    return pl.concat([fixed, other]), both.filter(pl.col("demonstrations") != "fixed")


def with_a_task_skipped_whole() -> pl.DataFrame:
    """A summary of two tasks; all prompts of one are too long with the nearest demonstrations."""
    long = rows_of("long", 1).filter(pl.col("choice") == "random")
    predictions = pl.concat([rows_of("news", 1), long])
    cells = zip(prompts_of("news", 1), prompts_of("long", 1, ("nearest", -1)), strict=True)
    prompts, retrieved = (pl.concat(parts) for parts in cells)
    return summarize_retrieval(predictions, prompts, retrieved, 0.9)
