"""Accuracy with chosen and random demonstrations, for all models."""

import polars as pl

from anchorflow.present.page import Page, pivoted, with_skipped, without_details

_NOTE = (
    "Means over seeds with intervals over seeds and texts. random: demonstrations drawn once "
    "per seed, equally many of each label; nearest: the same number of training texts, those "
    "most similar to the test text by the cosine of a sentence encoder's embeddings, the most "
    "similar last (Liu et al. 2022); nearest_per_label: the most similar texts of each label, "
    "in the numbers of random; representative: of each label, the texts nearest to the centers "
    "of k-means clusters, one per cluster; outlying: those farthest from all centers; "
    "other_task: random texts of another task of the run with this task's labels; "
    "random_labels: the random demonstrations with their labels in a random order (Min et al. "
    "2022). The last four are the same for all test texts of a seed. "
    "similarity: the cosine, averaged over the demonstrations; same_label: share of demonstrations "
    "with the test text's label; majority: accuracy of the demonstrations' most frequent label, "
    "the last of several, without a model; in_labels: share of texts whose likeliest next token is "
    "the first of a label word; accuracy_gain: accuracy minus that with random, paired by "
    "text. Texts identical to the test text are excluded from nearest ones, and texts "
    "identical to any test text from representative and outlying ones. Prompts that exceed the "
    "context are skipped; pairs with a skipped prompt do not count in the gain."
)


def tabulate_retrieval(summary: pl.DataFrame) -> Page:
    """One row per model, task, and choice, one column per measure."""
    table = pivoted(
        with_skipped(without_details(summary), "accuracy", "accuracy_gain"),
        ("model", "task", "choice"),
        "measure",
    )
    return Page("Chosen demonstrations", _NOTE, table.fill_null("–"))
