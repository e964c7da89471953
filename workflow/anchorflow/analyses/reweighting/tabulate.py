"""Re-weighting and its baselines for all models, as [A] Table 1."""

import polars as pl

from anchorflow.present.page import Page, pivoted, without_details

_NOTE = (
    "Means over seeds with intervals over seeds and texts; demonstrations are fixed per seed. "
    "vanilla: plain in-context learning; many: with the training texts of re-weighting as further"
    " demonstrations; reweighted: β fitted to the training texts, with the learning rate that is "
    "best on held-out training texts if there are several; reweighted_0.1 and so on: with this "
    "learning rate (0.01 is that of [A], App. H); routed: attention routed by principal "
    "directions of queries and keys, with coefficients fitted to the same texts; all others are "
    "the baselines that the configuration reference describes under reweighting.baselines. gain: "
    "minus vanilla, paired by text; in_labels: share of texts whose likeliest next token is the "
    "first of a label word; contextual_bias, domain_bias: how far a prompt prefers labels for "
    "inputs without content, or of random words of the texts, from 0 for no preference to 1 for a"
    " single label; ece: expected calibration error, too large on few texts; ece_excess: ece "
    "minus what it would be if confidence were accuracy; parameters: how many numbers are fitted "
    "to the training texts. Where prompts of a method exceed the context and are skipped, its "
    "values and gains cover the remaining texts; it has an average only if it was run on every "
    "task. published: Table 1 of [A], Wang et al. 2023."
)


def tabulate_reweighting(summary: pl.DataFrame) -> Page:
    """One row per model, measure, and method, one column per task, as [A] Table 1.

    Published numbers, if any, follow ours; the number of skipped prompts follows the accuracy.
    """
    summary, index = without_details(summary), ("model", "measure", "method")
    count = pl.format(" ({} skipped)", "skipped")
    noted = (pl.col("skipped") > 0) & (pl.col("measure") == "accuracy")
    ours = pivoted(summary.with_columns(note=pl.when(noted).then(count)), index, "task")
    published = summary.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)", mean="published", low=pl.lit(None), high=pl.lit(None)
    )
    both = pl.concat([ours, pivoted(published, index, "task")], how="diagonal").fill_null("–")
    measures = summary["measure"].unique(maintain_order=True).to_list()
    order = {name: place for place, name in enumerate(measures)}
    table = both.sort("model", pl.col("measure").replace_strict(order), maintain_order=True)
    whole = pl.when(measure="parameters").then(pl.col(pl.String).str.strip_suffix(".00"))
    table = table.with_columns(whole.otherwise(pl.col(pl.String)))
    return Page("Re-weighted attention to label words", _NOTE, table)
