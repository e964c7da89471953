"""How many layers need the demonstrations, in all models and tasks."""

import polars as pl

from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Layers, from the first one on, in which queries have to see the demonstrations so that 95 % "
    "of accuracy and of label loyalty are kept there and with more layers; means over seeds with "
    "intervals over seeds and texts; demonstrations fixed per seed. Above these layers they see: "
    "first, only the prompt's first token and the instruction; label, label words too; random, as "
    "many other tokens instead. results/tables/cutoffs.csv has accuracy and loyalty by layer."
)


def tabulate_cutoffs(cutoffs: pl.DataFrame) -> Page:
    """One row per model and task, one column for what is still seen."""
    needed = cutoffs.filter(pl.col("measure") == "needed")
    table = pivoted(needed, ("model", "task"), "sees").fill_null("–")
    return Page("Layers that need the demonstrations", _NOTE, table)
