"""Compressed demonstrations of all models as a table, averaged over tasks, as [A] Table 2."""

import polars as pl

from anchorflow.present.page import Page, averaged_rows, pivoted, without_details

_NOTE = (
    "Means over tasks and seeds with intervals over seeds, test texts and draws; demonstrations "
    "fixed per seed. label_loyalty: share of predictions that are the same as with everything "
    "kept; word_loyalty: Jaccard similarity of the five most likely next tokens with those of that "
    "run; retained: share of the demonstrations' effect on label probabilities that remains, by "
    "the Jensen-Shannon divergence; first_only: no demonstrations; accuracy_change: minus the "
    "accuracy with everything kept; in_labels: share of texts whose likeliest next token is the "
    "first of a label word. Without a share, a method keeps the same number of tokens as there are "
    "anchors (formatting and label words), or the tokens that its name states. Methods of fewer "
    "demonstrations keep as many whole ones as fit; where none fits, rows are those of first_only. "
    "hidden_random_oracle: the random draw of highest label loyalty, chosen on the test texts on "
    "which it is scored, as Hidden_random-top in [A]; hidden_random_top: chosen on the other half "
    "of the test texts. reweighted, reweighted_anchor: attention to the label words is multiplied "
    "by the fitted exp(β). published: Table 2 of Wang et al. 2023. results/tables/compression.csv "
    "has every task."
)


def tabulate_compression(summary: pl.DataFrame) -> Page:
    """The measures averaged over tasks, one row per model, method, and share, as [A] Table 2."""
    averaged = without_details(averaged_rows(summary))
    named = averaged.with_columns(pl.col("share").cast(pl.String).fill_null("–"))
    index = ("model", "method", "share")
    ours = pivoted(named, index, "measure")
    published = averaged.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)",
        share=pl.lit("–"),
        mean="published",
        low=pl.lit(None),
        high=pl.lit(None),
    )
    table = pl.concat([ours, pivoted(published, index, "measure")], how="diagonal").fill_null("–")
    return Page("Compressed demonstrations", _NOTE, table)
