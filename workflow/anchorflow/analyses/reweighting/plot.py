"""exp(β) by layer and head: which attention to label words re-weighting raises or lowers."""

from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.colors import LogNorm
from matplotlib.ticker import NullLocator

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.present.style import name_y, number_layers, save, small_multiples
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics.estimates import correlations, mean_where_defined

_COLORS = "PuOr_r"  # color-blind safe; white at 1


def mean_factors(beta: pl.DataFrame) -> Array:
    """The factors exp(β), as geometric means over seeds and demonstrations, [L, H]."""
    table = (
        beta.group_by("layer", "head")
        .agg(pl.col("beta").mean())
        .pivot("head", index="layer", values="beta", sort_columns=False)
        .sort("layer")
    )
    heads = sorted((name for name in table.columns if name != "layer"), key=int)
    factors: Array = np.exp(table.select(heads).to_numpy().astype(np.float64))
    return factors


def agreement_of_seeds(beta: pl.DataFrame) -> float:
    """Mean over pairs of seeds of Pearson's correlation of their β over layers and heads.

    NaN for a single seed, and where β is the same in all heads.
    """
    of_seeds = [
        np.log(mean_factors(beta.filter(seed=seed))).ravel() for seed in beta["seed"].unique()
    ]
    pairs = [float(correlations(a, b)) for a, b in combinations(of_seeds, 2)]
    return float(mean_where_defined(np.array(pairs), 0)) if pairs else np.nan


def plot_reweighting(
    beta: pl.DataFrame, style: Mapping[str, Any], paths: Mapping[str, str | Path]
) -> None:
    """Plot the table ``beta`` of one model, one panel per task, with how alike its seeds are.

    There is no β, an InputError, when no prompt fits the context.
    """
    if beta.is_empty():
        raise InputError(
            "every prompt exceeds the model's context, so no weights were fitted; lower "
            "demonstrations_per_label or choose a model with a longer context."
        )
    tasks = beta["task"].unique(maintain_order=True).to_list()
    factors = {task: mean_factors(beta.filter(pl.col("task") == task)) for task in tasks}
    largest = max(float(np.abs(np.log(f)).max()) for f in factors.values())
    span = np.exp(max(largest, 0.05))  # a color scale needs a width even where all β are 0
    seeds = beta["seed"].n_unique()
    over = f"{seeds} seeds" if seeds > 1 else "one seed"
    title = (
        f"{beta['model'][0]}: factors exp(β) of attention from the target to label words,\n"
        f"geometric mean over demonstrations and {over}"
    )
    with small_multiples(style, 1, len(tasks), title) as (figure, axes):
        for column, (task, values) in enumerate(factors.items()):
            panel = axes[0][column]
            image = panel.imshow(
                values,
                norm=LogNorm(1 / span, span),
                cmap=_COLORS,
                aspect="auto",
                origin="lower",
                interpolation="nearest",
            )
            stable = agreement_of_seeds(beta.filter(task=task))
            alike = "" if np.isnan(stable) else f"\nr between seeds: {stable:.2f}"
            panel.set_title(f"{task}{alike}")
            panel.set_xlabel("head")
            number_layers(panel.xaxis)
            number_layers(panel.yaxis, layers_of(beta))
        name_y(axes[0], "layer")
        bar = figure.colorbar(image, ax=axes[0], label="exp(β)", shrink=0.9)
        ticks = np.exp(np.linspace(-np.log(span), np.log(span), 5)).tolist()
        bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
        bar.ax.yaxis.set_minor_locator(NullLocator())
        save(figure, paths)
