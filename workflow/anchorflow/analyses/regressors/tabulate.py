"""In-context learning compared with regressions for all models, as [K] Table 2."""

import polars as pl

from anchorflow.present.page import Page, pivoted

_NOTE = (
    "All methods use the same demonstrations, as many as the token budget allows; agreement is "
    "with the model's predictions. head: kernel regression on the attention of one head, the "
    "largest to any token of each demonstration; the head of highest agreement, chosen on the "
    "same texts (chosen here, as in [K] §5.2) or on others (held out, as in §5.5). encoder: "
    "kernel regression with the sentence encoder; encoder logistic: logistic regression on its "
    "embeddings; other rows: kernel regression with the further encoder of that name. Means over "
    "seeds with intervals over seeds and texts. published: Table 2 of Han et al. 2025, with "
    "another template and a head chosen by correlation on 700 of 1000 texts. "
    "results/tables/regressors.csv also has fewer demonstrations and other kinds of weights."
)


def tabulate_regressors(summary: pl.DataFrame) -> Page:
    """One row per model, measure, and method, one column per task, as [K] Table 2.

    Published numbers, if any, follow ours.
    """
    index = ("model", "measure", "method")
    full = summary.filter(
        pl.col("demonstrations_per_label").is_null(),
        pl.col("weights").is_null() | (pl.col("weights") == "max"),
    ).with_columns(pl.col("method").str.replace_all("_", " "))
    published = full.filter(pl.col("published").is_not_null()).with_columns(
        pl.col("method") + " (published)", mean="published", low=pl.lit(None), high=pl.lit(None)
    )
    both = pl.concat(
        [pivoted(full, index, "task"), pivoted(published, index, "task")], how="diagonal"
    )
    table = both.sort("model", "measure", maintain_order=True).fill_null("–")
    return Page(
        "In-context learning compared with regressions on the same demonstrations", _NOTE, table
    )
