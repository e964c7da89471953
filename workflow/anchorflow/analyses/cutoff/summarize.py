"""Accuracy and loyalty without demonstrations from some layer on, and layers that need them."""

import numpy as np
import polars as pl

from anchorflow.analyses.cutoff import CUTOFF_SUMMARY as SUMMARY
from anchorflow.arrays import Array
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics import by_task
from anchorflow.statistics.change import RETAINED, with_loyalty
from anchorflow.statistics.estimates import Estimate, SeedStatistic, weighted_mean_where_defined
from anchorflow.statistics.settings import (
    estimate_settings,
    mean_of_draws,
    settings_of,
    summarize_settings,
)

_WATCHED = ("accuracy", "label_loyalty")
MEASURES = SUMMARY.measured[:-1]  # of every cutoff; the last one is of all of them together
KEPT = 0.95  # share of accuracy and of label loyalty above which demonstrations are not needed


def cutoff_measures(cutoff: pl.DataFrame) -> pl.DataFrame:
    """Accuracy and loyalty of every prediction in the table ``cutoff`` for one model and task."""
    layers = layers_of(cutoff)
    # The unmodified run is repeated for every series of cutoffs.
    plain = cutoff.filter(layer=layers[-1]).unique(["seed", "example"], maintain_order=True)
    measured = with_loyalty(cutoff, plain, cutoff.filter(sees="first", layer=layers[0]))
    whole = f"{RETAINED}_whole"
    return measured.select("seed", "example", "draw", "sees", "layer", *MEASURES, whole)


def layers_needed(accuracy: Array, loyalty: Array, layers: Array) -> Array:
    """The smallest cutoff such that ``KEPT`` is retained there and at every later cutoff.

    Both accuracy and label loyalty have to be retained, relative to the unmodified run.

    ``accuracy`` and ``loyalty``, [R, layers], are by cutoff, the last of which is the unmodified
    run. The cutoffs ``layers`` increase. The result, [R], is the place of a layer in the model, and
    its number of layers where all of them need the demonstrations; NaN where an accuracy or a
    loyalty is NaN.
    """
    # 1e-9: shares such as 0.95 of 20 texts are met exactly but for rounding.
    kept = (accuracy >= KEPT * accuracy[:, -1:] - 1e-9) & (loyalty >= KEPT - 1e-9)
    # Counted from the last cutoff down to the first one that retains less.
    first = kept.shape[1] - np.cumprod(kept[:, ::-1], axis=1).sum(1).astype(int)
    defined = ~(np.isnan(accuracy) | np.isnan(loyalty)).any(1)
    needed: Array = np.where(defined, layers[np.minimum(first, len(layers) - 1)], np.nan)
    return needed


def needed_of_seed(rows: pl.DataFrame, sees: str) -> SeedStatistic:
    """The first layer that needs no demonstrations in one seed; see :func:`layers_needed`.

    Accuracy and loyalty are averaged over draws and examples first: a single example retains either
    everything or nothing.
    """
    chosen = rows.filter(pl.col("sees") == sees)
    layers = chosen["layer"].unique().sort()
    curves = [mean_of_draws(chosen.filter(pl.col("layer") == at), _WATCHED) for at in layers]
    means = [
        weighted_mean_where_defined(np.stack([curve[name].to_numpy() for curve in curves], 1))
        for name in _WATCHED
    ]
    numbers = layers.to_numpy().astype(float)

    def statistic(weights: Array) -> Array:
        return layers_needed(means[0](weights), means[1](weights), numbers)[:, None]

    return SeedStatistic(statistic, by_task.texts_of(chosen))


def summarize_cutoff(
    cutoff: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Accuracy and loyalty by cutoff, and layers needed; see :func:`summarize_settings`."""
    by_task.require_examples(cutoff)
    settings = settings_of(cutoff, SUMMARY)

    def of_task(rows: pl.DataFrame) -> Estimate:
        return estimate_settings(cutoff_measures(rows), settings, MEASURES)

    by_cutoff = summarize_settings(
        SUMMARY, settings, of_task, cutoff, prompts, confidence, measures=MEASURES
    )
    parts = [by_cutoff]
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    for sees in settings["sees"].unique().sort():

        def needed(rows: pl.DataFrame, sees: str = sees) -> Estimate:
            measured = cutoff_measures(rows)
            return by_task.estimate_over_seeds(measured, lambda seed: needed_of_seed(seed, sees))

        layer = pl.Series("layer", [-1], dtype=settings["layer"].dtype)
        of_sees = pl.DataFrame({"sees": [sees], "layer": layer, "measure": ["needed"]})
        whole = by_task.over_tasks(cutoff, tasks, needed, 1)
        cutoffs = layers_of(settings)
        # Student's t knows no bounds, but cutoffs have them.
        within = [pl.col(end).clip(cutoffs[0], cutoffs[-1]) for end in ("low", "high")]
        rows = by_task.summary_rows(whole, of_sees, cutoff, confidence).with_columns(within)
        parts.append(by_task.summary_table(rows, cutoff, SUMMARY))
    return pl.concat(parts)
