"""Effects of cutting edges of attention in several layers, for all models."""

import polars as pl

from anchorflow.present.page import Page, averaged_rows, pivoted, without_details

_NOTE = (
    "Means over tasks and seeds with intervals over seeds, texts, and draws of random edges; "
    "demonstrations are fixed per seed. Attention along a class of edges or, as a control, along "
    "the same number of random edges in the same rows is cut; in equal_to_target, attention from "
    "the target to random tokens other than label words, as many as hold as much of it. Layers are "
    "the first, middle, or last third, or all. loss_change and probability_change refer to the "
    "true label; log_odds_change is that of its log odds; label_loyalty, the share of unchanged "
    "predictions; word_loyalty, the Jaccard similarity of the most likely tokens; in_labels: share "
    "of texts whose likeliest next token is the first of a label word. results/tables/knockout.csv "
    "has every task and every single layer."
)


def tabulate_knockout(summary: pl.DataFrame) -> Page:
    """One row per model, class of edges, control, band of layers, and first layer."""
    table = pivoted(
        without_details(_in_several_layers(summary)),
        ("model", "edges", "control", "band", "layer"),
        "measure",
    )
    return Page("Edges of attention cut", _NOTE, table.fill_null("–"))


def _in_several_layers(knockouts: pl.DataFrame) -> pl.DataFrame:
    """Averages over tasks for bands of layers; for single layers if there are no bands."""
    averaged = averaged_rows(knockouts)
    together = averaged.filter(pl.col("band") != "single")
    return averaged if together.is_empty() else together
