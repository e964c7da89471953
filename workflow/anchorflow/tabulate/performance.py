"""The performance summaries of all models, as [A] Table 1."""

import polars as pl

from anchorflow.tabulate.page import Page, pivoted

_NOTE = (
    "Means over seeds with intervals over seeds and texts; demonstrations fixed per "
    "seed. vanilla: in-context learning as it is; many: with more demonstrations, texts that "
    "re-weighting trains on; reweighted: β fitted to the training texts, with the learning rate "
    "that is best on held-out ones of them if there are several; reweighted_0.1 and so on: with "
    "this learning rate (0.01 is that of [A], App. H); all others are the baselines that "
    "config/README.md describes under reweighting.baselines. gain: minus vanilla, "
    "paired by example. Of a method that skipped prompts as too long for the context, figures are "
    "over the rest, gains against vanilla on the rest; averaged only if no task was skipped whole. "
    "published: Table 1 of [A], Wang et al. 2023."
)


def tabulate_performance(performance: pl.DataFrame) -> Page:
    """One row per model, measure, and method, one column per task, as [A] Table 1.

    Published numbers, if any, follow ours; the number of skipped prompts follows the accuracy.
    """
    index = ("model", "measure", "method")
    count = pl.format(" ({} skipped)", "skipped")
    noted = (pl.col("skipped") > 0) & (pl.col("measure") == "accuracy")
    ours = pivoted(performance.with_columns(note=pl.when(noted).then(count)), index, "task")
    published = performance.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)",
        mean="published",
        low=pl.lit(None),
        high=pl.lit(None),
    )
    both = pl.concat([ours, pivoted(published, index, "task")], how="diagonal").fill_null("–")
    measures = performance["measure"].unique(maintain_order=True).to_list()
    order = {name: place for place, name in enumerate(measures)}
    table = both.sort("model", pl.col("measure").replace_strict(order), maintain_order=True)
    return Page("Re-weighted attention to label words", _NOTE, table)
