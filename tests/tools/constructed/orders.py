"""Predictions in three orders and three draws, of four texts, for effects worked out by hand."""

import polars as pl

from anchorflow.analyses.orders import ORDERS
from anchorflow.analyses.orders.summarize import summarize_orders
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

TRUTH = [0, 1, 0, 1]
# Right in 4, 3, and 2 of four texts; then in 4, 2, and 0.
TOLD = {
    "order": [[0, 1, 0, 1], [0, 1, 0, 0], [0, 1, 1, 0]],
    "draw": [[0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0]],
}


def tables_of(
    task: str, seeds: int, left_out: tuple[str, int] | None = None
) -> dict[str, pl.DataFrame]:
    """What the summary reads. Of two heads, the first predicts what the model does, the second 0.

    One prompt, such as ("draw-1", 3), may be left out as too long; -1 stands for all texts.
    """
    cells = [
        (seed, arrangement, number, example)
        for seed in range(seeds)
        for arrangement, numbers in TOLD.items()
        for number in range(len(numbers))
        for example in range(4)
    ]
    skipped = [
        left_out in ((f"{arrangement}-{number}", example), (f"{arrangement}-{number}", -1))
        for _, arrangement, number, example in cells
    ]
    rows = [
        {"seed": seed, "arrangement": arrangement, "number": number, "example": example}
        | {"label": TRUTH[example], "prediction": TOLD[arrangement][number][example]}
        | {"probabilities": [0.5, 0.5], "heads": [TOLD[arrangement][number][example], 0]}
        for (seed, arrangement, number, example), out in zip(cells, skipped, strict=True)
        if not out
    ]
    prompts = [
        {
            "seed": seed,
            "demonstrations": f"{arrangement}-{number}",
            "example": example,
            "skipped": "too long" if out else None,
        }
        for (seed, arrangement, number, example), out in zip(cells, skipped, strict=True)
    ]
    return {
        "predictions": frame(rows, ORDERS, model="m", task=task),
        "prompts": frame(prompts, PROMPTS, model="m", task=task),
    }


def summary(left_out: tuple[str, int] | None = None, seeds: int = 2) -> pl.DataFrame:
    """The summary of one task."""
    return summarize_orders(**tables_of("news", seeds, left_out), chosen_on=0.5, confidence=0.9)


def with_a_task_skipped_whole() -> pl.DataFrame:
    """A summary of two tasks; all prompts of one order are too long in the second."""
    both = tables_of("news", 1), tables_of("long", 1, ("order-1", -1))
    joined = {name: pl.concat([tables[name] for tables in both]) for name in both[0]}
    return summarize_orders(**joined, chosen_on=0.5, confidence=0.9)
