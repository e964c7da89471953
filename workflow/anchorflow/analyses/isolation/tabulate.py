"""Loyalty under isolation for all models as a table, averaged over tasks."""

import polars as pl

from anchorflow.present.page import Page, averaged_rows, pivoted, without_details

_NOTE = (
    "Means over tasks and seeds with intervals over seeds, test texts and draws of random "
    "positions; demonstrations fixed per seed. The isolated positions cannot attend to earlier "
    "tokens in the first or last layers; layers is the number of these. label: label words; "
    "random: other tokens of the demonstrations; before and after: the tokens next to each label "
    "word; text: tokens of each text. label_loyalty: share of predictions that are the same as in "
    "the unmodified run; word_loyalty: Jaccard similarity of the most likely next tokens with "
    "those of the unmodified run; retained: share of the demonstrations' effect on label "
    "probabilities that remains, by the Jensen-Shannon divergence; hidden: none is isolated, but "
    "queries see the prompt's first token and the instruction alone; accuracy_change: minus the "
    "accuracy of the unmodified run; in_labels: share of texts whose likeliest next token is the "
    "first of a label word. results/tables/isolation.csv has every task."
)


def tabulate_isolation(summary: pl.DataFrame) -> Page:
    """The measures side by side, one row per model and setting."""
    table = pivoted(
        without_details(averaged_rows(summary)),
        ("model", "variant", "layers", "side", "positions"),
        "measure",
    )
    return Page("Loyalty under isolation", _NOTE, table.fill_null("–"))
