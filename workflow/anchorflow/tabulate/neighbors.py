"""Gains from chosen demonstrations in all models."""

import polars as pl

from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Means over seeds with intervals over seeds and texts. random: demonstrations "
    "drawn once per seed, equally many of each label; nearest: as many training texts, those most "
    "similar to the test text by the cosine of a sentence encoder's embeddings, the most similar "
    "last (Liu et al. 2022); nearest_per_label: the most similar ones of each label, as many of "
    "each as with random; representative: of each label, the texts nearest to the centers of "
    "k-means clusters, one of each, and outlying: those farthest from all of them; other_task: "
    "random texts of another task of the run under this task's labels; random_labels: the random "
    "demonstrations with their labels shuffled among them (Min et al. 2022). The last four are the "
    "same for all test texts of a seed. similarity: that cosine, averaged over the demonstrations; "
    "same_label: share of them that carry the test text's label; majority: accuracy of their most "
    "frequent label, of several the last, without any model; accuracy_gain: minus random, paired "
    "by example. Texts identical to the test text are left out of nearest ones, and those "
    "identical to any test text of representative and outlying ones. Prompts that exceed the "
    "context are skipped; pairs with one are left out of the gain."
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
    return Page("Chosen demonstrations", _NOTE, table)
