"""Loyalty: agreement of predictions under an intervention with the unmodified run ([A] §2.2)."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from anchorflow.statistics.accuracy_change import ACCURACY, CHANGES, accuracy_changes
from anchorflow.statistics.by_task import (
    estimate_over_seeds,
    texts_of,
)
from anchorflow.statistics.estimates import Estimate, SeedStatistic, weighted_mean_where_defined


def with_loyalty(rows: pl.DataFrame, untouched: pl.DataFrame) -> pl.DataFrame:
    """Add label loyalty, word loyalty, accuracy, and its change to every prediction.

    Label loyalty is 1 where the predicted label is that of the unmodified run, else 0. Word loyalty
    is the Jaccard similarity |a ∩ b| / |a ∪ b| of the sets a and b of most likely tokens. The
    change of accuracy and its parts are those of :func:`accuracy_changes`.

    Parameters
    ----------
    rows, untouched : DataFrame
        Columns seed, example, label, prediction, probabilities, in_labels, and top_tokens;
        ``untouched``, the unmodified run, has one row per seed and example.

    Returns
    -------
    DataFrame
        ``rows`` with these columns and ``was``, the probabilities in the unmodified run.

    Source: Wang et al. 2023, §2.2.
    """
    before = untouched.select(
        *EXAMPLE_KEYS,
        pl.col("prediction").alias("before"),
        pl.col("probabilities").alias("was"),
        pl.col("in_labels").alias("was_in_labels"),
        pl.col("top_tokens").alias("tokens"),
    )
    common = pl.col("top_tokens").list.set_intersection("tokens").list.len()
    either = pl.col("top_tokens").list.set_union("tokens").list.len()
    return (
        rows.join(before, on=EXAMPLE_KEYS)
        .with_columns(
            (pl.col("prediction") == pl.col("before")).cast(pl.Float64).alias("label_loyalty"),
            (common / either).alias("word_loyalty"),
            ACCURACY.alias("accuracy"),
            **accuracy_changes(CHANGES, "before", "was_in_labels"),
        )
        .drop("before", "was_in_labels", "tokens")
    )


def estimate_settings(
    measured: pl.DataFrame, settings: pl.DataFrame, measures: Sequence[str]
) -> Estimate:
    """The measures of each setting, averaged first over the draws of each seed.

    Parameters
    ----------
    measured : DataFrame
        One row per seed, example, draw, and setting, of one task.
    settings : DataFrame
        The S settings; its columns are among those of ``measured``.
    measures : sequence of str
        M columns of ``measured``.

    Returns
    -------
    Estimate
        [S · M] values.
    """

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        texts = rows.select(pl.col("example").unique().sort())
        values = [
            texts.join(
                mean_of_draws(chosen, measures), on="example", how="left", maintain_order="left"
            )
            .select(measures)
            .fill_null(np.nan)
            .to_numpy()
            for setting in settings.iter_rows(named=True)
            for chosen in [rows.filter(pl.col(n).eq_missing(value) for n, value in setting.items())]
        ]
        statistic = weighted_mean_where_defined(np.concatenate(values, 1))
        return SeedStatistic(statistic, texts_of(rows))

    return estimate_over_seeds(measured, of_seed)


def mean_of_draws(rows: pl.DataFrame, measures: Sequence[str]) -> pl.DataFrame:
    """Columns example and ``measures`` of one setting and seed, averaged over draws."""
    return rows.group_by("example").agg(pl.col(*measures).mean()).sort("example")


EXAMPLE_KEYS = ["seed", "example"]
