"""Scores of every head as layers by heads, with those of the untrained twin beside them."""

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from anchorflow.analyses.heads.summarize import with_difference
from anchorflow.arrays import Array
from anchorflow.present import style as look
from anchorflow.present.style import Paths, Style, small_multiples
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics.by_task import AVERAGE

NAMES = {
    "prefix_matching": "prefix matching",
    "direct": "direct effect",
    "label_copy": "label copy",
    "task_recognition_share": "task recognition",
    "task_learning_share": "task learning",
    "gathers": "gathering",
    "to_right": "to the right label",
    "function_vector": "function vector",
}


_UNITS = {  # of the difference from the control
    "prefix_matching": "attention",
    "direct": "logits",
    "label_copy": "logits",
    "task_recognition_share": "share of what is written",
    "task_learning_share": "share of what is written",
    "gathers": "attention",
    "to_right": "share of attention",
    "function_vector": "nats",
}


def name_of(score: str) -> str:
    """A score's name in figures, also that of "a without b"."""
    first, _, other = score.partition(" without ")
    return f"{NAMES[first]}\nwithout {NAMES[other]}" if other else NAMES[first]


def plot_heads(
    summary: pl.DataFrame,
    style: Style,
    confidence: float,
    paths: Paths,
    untrained: pl.DataFrame | None = None,
) -> None:
    """Plot ``HEADS_SUMMARY`` for one model, averaged over tasks, minus the scores' controls.

    One column per score: the model above, its untrained twins below. A circle marks the head of the
    largest value above 0, which is named above the panel, with the rank correlation over heads
    between halves of the texts.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("layer") >= 0)
    scores = [score for score in NAMES if score in set(averaged["score"])]
    layers = layers_of(averaged)
    matrices = [
        [look.layers_by_heads(_best_measure(averaged.filter(score=score))) for score in scores]
    ]
    if untrained is not None and not untrained.is_empty():
        matrices.append(
            [look.layers_by_heads(_means(untrained.filter(score=score))) for score in scores]
        )
    rows = summary.filter(pl.col("mean").is_not_null(), task=AVERAGE, measure="reliability")
    reliable = {
        score: f"\nr between halves {mean:.2f}"
        for score, mean in rows.select("score", "mean").iter_rows()
    }
    total = look.describe(summary.sort("examples", descending=True), confidence).partition(";")[0]
    title = f"Scores of attention heads minus their controls (circle: largest above 0),\n{total}"
    with small_multiples(style, len(matrices), len(scores), title) as (figure, axes):
        for column, score in enumerate(scores):
            panels = [row[column] for row in axes]
            of_score = [row[column] for row in matrices]
            limit = max([0.01, *(float(np.nanmax(np.abs(of))) for of in of_score)])
            for panel, matrix in zip(panels, of_score, strict=True):
                image = _plot_scores(panel, matrix, limit, layers)
            named = f"{NAMES[score]}\n{panels[0].get_title()}"
            panels[0].set_title(f"{named}{reliable.get(score, '')}")
            for panel in panels[1:]:
                panel.set_title(f"untrained: {panel.get_title()}")
            panels[-1].set_xlabel("head")
            bar = figure.colorbar(image, ax=panels, location="bottom", pad=0.02, aspect=20)
            bar.locator = MaxNLocator(2)
            bar.set_label(_UNITS.get(score, "score minus control"))
        for row in axes:
            row[0].set_ylabel("layer")
        look.save(figure, paths)


def _best_measure(rows: pl.DataFrame) -> pl.DataFrame:
    """The difference from the control, or the value of a score without one."""
    measure = "difference" if "difference" in set(rows["measure"]) else "value"
    return rows.filter(measure=measure)


def _means(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over examples, then over seeds and tasks, of differences from controls."""
    of_seeds = with_difference(rows).group_by("task", "seed", "layer", "head")
    means = of_seeds.agg(pl.col("difference").mean())
    return means.group_by("layer", "head").agg(mean=pl.col("difference").mean())


def _plot_scores(axes: Axes, matrix: Array, limit: float, layers: Sequence[int]) -> AxesImage:
    """Plot a value per layer and head, [L, H], and name the one of the largest value above 0."""
    image = look.heat_map(axes, matrix, "PuOr_r", (-limit, limit), layers)
    layer, head = np.unravel_index(np.nan_to_num(matrix).argmax(), matrix.shape)
    if matrix[layer, head] > 0:
        look.circle(axes, int(layer), int(head))
        axes.set_title(f"{matrix[layer, head]:.2f} at layer {layers[int(layer)]}, head {head}")
    else:
        axes.set_title("none above 0")
    return image
