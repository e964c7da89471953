"""Effects of other label words for all models."""

import polars as pl

from anchorflow.present.page import Page, pivoted

_NOTE = (
    "words: the task's own label words; other rows: the words of that name in the configuration. "
    "Means over seeds with intervals over seeds and texts; all words are run on the same texts, "
    "and the average covers the tasks that have the words. accuracy: share of predictions that "
    "are the word that stands for the true label; separation: mean AUC of label pairs, which a "
    "preference for one word does not change; accuracy_change: accuracy minus that with the "
    "task's own words on the same texts; follows_meaning: accuracy if a predicted word counts "
    "as the label that it names among the own words, for words that are the own ones in another "
    "order. loyalty_label, loyalty_random: share of predictions unchanged when label words, or "
    "random tokens, are isolated in the first layers. auc_late: AUCROC_l, how well the target's "
    "attention to label words predicts the model's answer, averaged over the last third of the "
    "layers. s_wp_early: share of S_wp in the three flows, first third of the layers; s_pq_late: "
    "share of S_pq, last third. results/tables/label_words.csv has every layer, and the "
    "difference of the two loyalties."
)


def tabulate_label_words(summary: pl.DataFrame) -> Page:
    """One row per model, task, and kind of label words, without measures of single layers."""
    measures = [
        *("accuracy", "separation", "accuracy_change", "follows_meaning", "loyalty_label"),
        *("loyalty_random", "auc_late", "s_wp_early", "s_pq_late"),
    ]
    index = ("model", "task", "words")
    counts = ("examples", "texts", "skipped")
    cells = pivoted(summary.filter(pl.col("measure").is_in(measures)), index, "measure")
    present = [measure for measure in measures if measure in cells.columns]
    counted = cells.join(summary.filter(measure="accuracy").select(*index, *counts), on=index)
    table = counted.select(*index, *counts, *present)
    return Page("Own and other label words", _NOTE, table.fill_null("–"))
