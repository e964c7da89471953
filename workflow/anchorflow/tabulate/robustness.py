"""Accuracy for perturbed test texts in all models, beside the published one."""

import polars as pl

from anchorflow.summarize.published import PERTURBED
from anchorflow.tabulate.page import Page, pivoted
from anchorflow.tabulate.plain import with_skipped

_NOTE = (
    "Means over seeds with intervals over seeds and texts; the same demonstrations, and the same "
    "test texts, untouched and perturbed by rules without a language model: typos, transposed, "
    "missing, doubled, and neighboring keys; word_order, words in random order; case, letters in "
    "the other case; rare_words, content words replaced by their nearest neighbor in a sentence "
    "encoder's space that is rarer in the task's training texts. changed_words: share of words "
    "that are not what was in their place. agreement: share of texts predicted as when untouched; "
    "accuracy_change: minus untouched; both paired by text. Prompts that exceed the context are "
    "skipped; pairs with one are left out of both. The last rows, [K], are Table 1 of Han et al. "
    "2025, whose texts GPT-3.5 rewrote: other perturbations than ours, of the same names, and "
    "complex sentences, which rules can't make."
)


def tabulate_robustness(robustness: pl.DataFrame) -> Page:
    """One row per model, task, and perturbation, one column per measure; then the published rows.

    Numbers of skipped prompts, and of skipped pairs, follow the interval.
    """
    rows = with_skipped(robustness, "accuracy", "accuracy_change")
    ours = pivoted(rows, ("model", "task", "perturbation"), "measure")
    published = pl.DataFrame(
        [
            {
                "model": "[K], Table 1",
                "task": "published",
                "perturbation": name,
                "accuracy": f"{accuracy:.3f}",
                "accuracy_change": None
                if name == "untouched"
                else f"{accuracy - PERTURBED['untouched']:.3f}",
            }
            for name, accuracy in PERTURBED.items()
        ]
    )
    return Page(
        "Perturbed test texts",
        _NOTE,
        pl.concat([ours, published], how="diagonal").fill_null("–"),
    )
