"""Gains from similar demonstrations in all models."""

import polars as pl

from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Means over seeds with intervals over seeds and texts. random: demonstrations "
    "drawn once per seed, equally many of each label; nearest: as many training texts, those most "
    "similar to the test text by the cosine of a sentence encoder's embeddings, the most similar "
    "last (Liu et al. 2022); nearest_per_label: the most similar ones of each label, as many of "
    "each as with random. similarity: that cosine, averaged over the demonstrations; same_label: "
    "share of them that carry the test text's label; accuracy_gain: minus random, paired by "
    "example. Texts identical to the test text are left out of nearest ones. Prompts that exceed "
    "the context are skipped; pairs with one are left out of the gain."
)


def tabulate_neighbors(neighbors: pl.DataFrame) -> Page:
    """One row per model, task, and choice of demonstrations, one column per measure.

    Numbers of skipped prompts, and of skipped pairs for the gain, follow the interval.
    """
    noted = (pl.col("skipped") > 0) & pl.col("measure").str.starts_with("accuracy")
    count = pl.when(noted).then(pl.format(" ({} skipped)", "skipped"))
    order = {name: at for at, name in enumerate(neighbors["task"].unique(maintain_order=True))}
    rows = neighbors.with_columns(note=count).sort(
        "model", pl.col("task").replace_strict(order), maintain_order=True
    )
    table = pivoted(rows, ("model", "task", "choice"), "measure").fill_null("–")
    return Page("Similar demonstrations", _NOTE, table)
