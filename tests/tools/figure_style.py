"""A style for figures in tests, small and quick to render, and what a figure drew."""

import sys
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anchorflow.present import style
from anchorflow.statistics.by_task import AVERAGE

STYLE: dict[str, Any] = {
    "panel_width": 1.5,
    "font_size": 7,
    "resolution": 60,
    "colors": ["#0072B2", "#D55E00", "#595959"],
}


def labels_of(summary: pl.DataFrame, count: int = 2) -> dict[str, list[str]]:
    """As many label words for every task of a summary."""
    tasks = [task for task in summary["task"].unique(maintain_order=True) if task != AVERAGE]
    return {task: [f" label {number}" for number in range(count)] for task in tasks}


def figure_of(
    monkeypatch: pytest.MonkeyPatch, plot: Callable[..., None], *tables: Any, **more: Any
) -> Figure:
    """The figure that a function of a ``plot`` module draws of ``tables`` and further arguments."""
    figures: list[Figure] = []
    module = sys.modules[plot.__module__]
    saving = module if hasattr(module, "save") else style
    monkeypatch.setattr(saving, "save", lambda figure, paths: figures.append(figure))
    known = {"style": STYLE, "confidence": 0.95, "paths": {}}
    wanted = signature(plot).parameters
    plot(*tables, **{**{key: known[key] for key in known if key in wanted}, **more})
    return figures[0]


def values_of(line: Line2D) -> list[float]:
    """The heights of a line's points; NaN where it has a gap."""
    values: list[float] = np.asarray(line.get_ydata(), dtype=float).tolist()
    return values


def level_of_chance(figure: Figure, panel: int, vertical: bool = False) -> float:
    """Where a panel's dotted line of chance lies."""
    (line,) = (line for line in figure.axes[panel].lines if line.get_label() == "chance")
    return float(np.asarray(line.get_xdata() if vertical else line.get_ydata())[0])
