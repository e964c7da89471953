"""Loyalty: agreement of predictions under an intervention with the unmodified run ([A] §2.2)."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy.special import rel_entr

from anchorflow.arrays import Array
from anchorflow.config.table import Summary
from anchorflow.statistics.accuracy_change import ACCURACY, CHANGES, accuracy_changes
from anchorflow.statistics.by_task import (
    estimate_over_seeds,
    texts_of,
)
from anchorflow.statistics.estimates import Estimate, SeedStatistic, weighted_mean_where_defined

RETAINED = "retained"
_PARTS = (RETAINED, f"{RETAINED}_whole")
ROUNDING = 1e-12  # nats; float32 probabilities that differ by rounding are 1e-15 apart
AT_MOST_ALL = (-np.inf, 1.0)  # bounds of what is retained


def with_loyalty(
    rows: pl.DataFrame, untouched: pl.DataFrame, without: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Add label loyalty, word loyalty, accuracy, and its change to every prediction.

    Label loyalty is 1 where the predicted label is that of the unmodified run, else 0. Word loyalty
    is the Jaccard similarity |a ∩ b| / |a ∪ b| of the sets a and b of most likely tokens. The
    change of accuracy and its parts are those of :func:`accuracy_changes`.

    What is retained of the demonstrations' effect is graded: 1 - Σ D(u, i) / Σ D(u, o), with the
    label probabilities u of the unmodified run, i of the prediction, and o without demonstrations,
    sums over the texts of all seeds, and D of :func:`jensen_shannon`. Where a model mostly gives
    one answer, label loyalty is high whatever is changed, and this is not.

    ``untouched``, the unmodified run, and ``without``, that without demonstrations, have one row
    per seed and example. Given ``without``, ``retained`` and ``retained_whole`` are the parts of
    that ratio; they are null if it has no rows.

    Source: Wang et al. 2023, §2.2, for the two loyalties.
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
    loyal = (
        rows.join(before, on=EXAMPLE_KEYS)
        .with_columns(
            (pl.col("prediction") == pl.col("before")).cast(pl.Float64).alias("label_loyalty"),
            (common / either).alias("word_loyalty"),
            ACCURACY.alias("accuracy"),
            **accuracy_changes(CHANGES, "before", "was_in_labels"),
        )
        .drop("before", "was_in_labels", "tokens")
    )
    return loyal.drop("was") if without is None else _with_retained(loyal, without).drop("was")


def _with_retained(loyal: pl.DataFrame, without: pl.DataFrame) -> pl.DataFrame:
    """The columns ``retained`` and ``retained_whole``, which add up to the ratio over texts."""
    if without.is_empty():
        return loyal.with_columns(**dict.fromkeys(_PARTS, pl.lit(None, pl.Float64)))
    alone = without.select(*EXAMPLE_KEYS, pl.col("probabilities").alias("alone"))
    pairs = loyal.join(alone, on=EXAMPLE_KEYS, maintain_order="left")
    was, now, none = (
        np.array(pairs[name].to_list(), np.float64).reshape(len(pairs), -1)
        for name in ("was", "probabilities", "alone")
    )
    whole = jensen_shannon(was, none)
    parts = zip(_PARTS, (whole - jensen_shannon(was, now), whole), strict=True)
    return pairs.drop("alone").with_columns(pl.Series(name, values) for name, values in parts)


def share_of_effect(part: Array, whole: Array) -> Array:
    """A part as a share of the demonstrations' effect; NaN where that is no more than rounding."""
    known = whole > ROUNDING
    found: Array = np.divide(part, whole, out=np.full(part.shape, np.nan), where=known)
    return found


def jensen_shannon(first: Array, second: Array) -> Array:
    """Jensen-Shannon divergence of label distributions, in nats: [examples, C] to [examples].

    At most ln 2, so that no single text decides a sum, as with the Kullback-Leibler divergence.
    """
    middle = (first + second) / 2
    parts = rel_entr(first, middle) + rel_entr(second, middle)
    divergence: Array = np.maximum(parts.sum(-1) / 2, 0)  # rounding can make it negative
    return divergence


def estimate_settings(
    measured: pl.DataFrame, settings: pl.DataFrame, measures: Sequence[str]
) -> Estimate:
    """The measures of each setting, averaged first over the draws of each seed.

    ``measured`` has one row per seed, example, draw, and setting, of one task; the S ``settings``
    are rows of some of its columns. The M ``measures`` are columns: means over texts or, of a
    measure with a column that ends in ``_whole``, the mean over texts and seeds as a share of that
    column's. The estimate has [S · M] values.
    """
    wholes = [f"{name}_whole" for name in measures if f"{name}_whole" in measured.columns]
    columns, count = [*measures, *wholes], len(settings) * len(measures)

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        texts = rows.select(pl.col("example").unique().sort())
        values = [
            texts.join(
                mean_of_draws(chosen, columns), on="example", how="left", maintain_order="left"
            )
            .select(columns)
            .fill_null(np.nan)
            .to_numpy()
            for setting in settings.iter_rows(named=True)
            for chosen in [rows.filter(pl.col(n).eq_missing(value) for n, value in setting.items())]
        ]
        ordered = [each[:, : len(measures)] for each in values]
        ordered += [each[:, len(measures) :] for each in values]
        return SeedStatistic(
            weighted_mean_where_defined(np.concatenate(ordered, 1)), texts_of(rows)
        )

    shares = [
        order * len(measures) + measures.index(name.removesuffix("_whole"))
        for order in range(len(settings))
        for name in wholes
    ]

    def of_wholes(means: Array) -> Array:
        found, whole = means[..., :count].copy(), means[..., count:]
        found[..., shares] = share_of_effect(found[..., shares], whole)
        return found

    return estimate_over_seeds(measured, of_seed).map(of_wholes)


def draws_of(measured: pl.DataFrame, table: Summary) -> pl.DataFrame:
    """The number of draws of each setting, as the column ``draws``."""
    draws = pl.col("draw").n_unique().cast(pl.Int32).alias("draws")
    return measured.group_by(table.settings).agg(draws)


def mean_of_draws(rows: pl.DataFrame, measures: Sequence[str]) -> pl.DataFrame:
    """Columns example and ``measures`` of one setting and seed, averaged over draws."""
    return rows.group_by("example").agg(pl.col(*measures).mean()).sort("example")


EXAMPLE_KEYS = ["seed", "example"]
