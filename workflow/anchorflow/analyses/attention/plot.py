"""Fig. 5 of [A] for any model: how well label-word attention predicts the answer, by layer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.present.style import describe, plot_line, save, small_multiples, tasks_in_order

_AXES = {"auc": "AUCROC$_l$", "cumulative": "$R_l$"}
_REFERENCE = {"auc": 0.5, "cumulative": 1.0}  # chance; what all layers reach together


def plot_attention(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``ATTENTION_SUMMARY`` for one model: AUCROC_l above R_l, one column per task."""
    tasks = tasks_in_order(summary)
    title = "Label-word attention as a predictor, " + describe(summary, confidence)
    with small_multiples(style, len(_AXES), len(tasks), title) as (figure, axes):
        for row, (measure, name) in enumerate(_AXES.items()):
            for column, task in enumerate(tasks):
                panel = axes[row][column]
                rows = summary.filter(pl.col("task") == task, pl.col("measure") == measure)
                plot_line(panel, rows, style["colors"][row], row, name)
                panel.axhline(_REFERENCE[measure], color="0.6", linewidth=0.6, zorder=0)
                if measure == "auc":
                    panel.set_ylim(0, 1)
                    panel.set_title(task)
                else:
                    # R_l leaves [0, 1] where single layers are below chance.
                    panel.set_ylim(-0.5, 1.5)
                    panel.set_xlabel("layer")
                if column == 0:
                    panel.set_ylabel(name)
        save(figure, paths)
