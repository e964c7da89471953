"""Accuracy for perturbed test texts, for all models and as published."""

import polars as pl

from anchorflow.analyses.perturbations.summarize import PUBLISHED
from anchorflow.present.page import Page, pivoted, with_skipped, without_details

_NOTE = (
    "Means over seeds with intervals over seeds and texts. Demonstrations and test texts are the "
    "same in all rows; test texts are untouched or perturbed by rules, without a language model. "
    "typos: transposed, missing, and doubled letters, and neighboring keys; word_order: words in "
    "random order; case: letters in the other case; rare_words: content words replaced by their "
    "nearest neighbor in a sentence encoder's space that is rarer in the task's training texts. "
    "changed_words: share of words that differ from those in their place in the untouched text. "
    "agreement: share of texts with the prediction of the untouched text; accuracy_change: "
    "accuracy minus that for untouched texts; both paired by text. in_labels: share of texts whose "
    "likeliest next token is the first of a label word. Prompts that exceed the context are "
    "skipped; pairs with a skipped prompt do not count. The last rows, [K], are Table 1 of Han et "
    "al. 2025, whose texts GPT-3.5 rewrote: perturbations of the same names that differ from ours, "
    "and complex sentences, which rules cannot produce."
)


def tabulate_perturbations(summary: pl.DataFrame) -> Page:
    """One row per model, task, and perturbation, one column per measure; then the published rows.

    Numbers of skipped prompts, and of skipped pairs, follow the interval.
    """
    rows = with_skipped(without_details(summary), "accuracy", "accuracy_change")
    ours = pivoted(rows, ("model", "task", "perturbation"), "measure")
    known = {"model": "[K], Table 1", "task": "published"}
    published = [
        {**known, "perturbation": name, "accuracy": f"{accuracy:.3f}"}
        | {"accuracy_change": f"{accuracy - PUBLISHED['untouched']:.3f}"}
        for name, accuracy in PUBLISHED.items()
    ]
    published[0]["accuracy_change"] = "–"  # of untouched texts
    both = pl.concat([ours, pl.DataFrame(published)], how="diagonal").fill_null("–")
    return Page("Perturbed test texts", _NOTE, both)
