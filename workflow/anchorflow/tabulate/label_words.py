"""Effects of other label words in all models."""

import polars as pl

from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "words: the task's own label words; other rows: those of that name in the configuration. Means "
    "over seeds with intervals over seeds and texts, the same ones for all words; the "
    "average is over the tasks that have the words. accuracy: share of predictions that are the "
    "word shown with the true label; accuracy_change: minus that with the own words, on the same "
    "examples; follows_meaning: accuracy if a predicted word is taken by its meaning among the own "
    "words, where they are the own ones in another order. loyalty_label, loyalty_random: share of "
    "predictions as in the untouched run while label words, or random tokens, are isolated in the "
    "first layers. auc_late: AUCROC_l, how well the target's attention to label words tells the "
    "model's own answer, mean over the last third of the layers. s_wp_early: share of S_wp among "
    "the three flows in the first third of the layers; s_pq_late: of S_pq in the last third. "
    "results/tables/label_words.csv has every layer, and the difference of the two loyalties."
)


def tabulate_label_words(label_words: pl.DataFrame) -> Page:
    """One row per model, task, and kind of label words, without measures of single layers."""
    shown = [
        "accuracy",
        "accuracy_change",
        "follows_meaning",
        "loyalty_label",
        "loyalty_random",
        "auc_late",
        "s_wp_early",
        "s_pq_late",
    ]
    index = ("model", "task", "words")
    counts = label_words.filter(pl.col("measure") == "accuracy")
    cells = pivoted(label_words.filter(pl.col("measure").is_in(shown)), index, "measure")
    present = [measure for measure in shown if measure in cells.columns]
    counted = cells.join(counts.select(*index, "examples", "skipped"), on=index)
    table = counted.select(*index, "examples", "skipped", *present).fill_null("–")
    return Page("Own and other label words", _NOTE, table)
