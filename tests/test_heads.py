"""Kernel regression with each head: agreement, accuracy and correlation worked out by hand."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from anchorflow.heads import head_keys, head_measures, summarize_heads
from anchorflow.heads_figure import draw_heads
from anchorflow.summaries import AVERAGE
from anchorflow.tables import HEADS, KERNEL, PREDICTIONS, PROMPTS, frame_schema
from anchorflow.tabulate import tabulate_heads

STYLE: dict[str, Any] = {
    "panel_width": 1.5,
    "font_size": 7,
    "resolution": 60,
    "colors": ["#0072B2", "#D55E00", "#595959"],
}


def predictions(
    told: list[int], true: list[int], task: str = "news", seed: int = 0
) -> pl.DataFrame:
    rows = [
        {
            "model": "tiny",
            "task": task,
            "seed": seed,
            "example": example,
            "label": label,
            "prediction": prediction,
            "probabilities": [0.5, 0.5],
            "top_tokens": [1],
            "top_texts": ["a"],
            "top_probabilities": [0.1],
        }
        for example, (prediction, label) in enumerate(zip(told, true, strict=True))
    ]
    return pl.DataFrame(rows, schema=frame_schema(PREDICTIONS))


def kernel(
    told: dict[tuple[int, int], list[int | None]],
    task: str = "news",
    seed: int = 0,
    correlation: float | None = 0.5,
) -> pl.DataFrame:
    """Predictions of each (layer, head), the same for all kinds of weights."""
    rows = [
        {
            "model": "tiny",
            "task": task,
            "seed": seed,
            "example": example,
            "layer": layer,
            "head": head,
            "weights": weights,
            "prediction": prediction,
            "correlation": correlation if example else None,
        }
        for (layer, head), of_head in told.items()
        for example, prediction in enumerate(of_head)
        for weights in ("max", "label", "mean")
    ]
    return pl.DataFrame(rows, schema=frame_schema(KERNEL)).sort("example", "layer", "head")


def test_measures_compare_with_the_model_and_with_the_truth() -> None:
    rows = kernel({(0, 0): [0, 1, 1], (0, 1): [1, 1, None]})
    measured = head_measures(rows, predictions([0, 1, 0], [1, 1, 1]))
    keys = head_keys(rows)
    first = keys.with_row_index().filter((pl.col("weights") == "max") & (pl.col("head") == 0))[
        "index"
    ][0]
    assert measured["agreement"][:, first].tolist() == [1, 1, 0]
    assert measured["accuracy"][:, first].tolist() == [0, 1, 1]
    assert measured["agreement"][:, first + 1].tolist() == [0, 1, 0]  # nothing told is a miss
    assert np.isnan(measured["correlation"][0]).all()


def prompts(tasks: tuple[str, ...] = ("news", "reviews"), skipped: int = 0) -> pl.DataFrame:
    """As many prompts of each task as can be counted, the last ``skipped`` tasks' too long."""
    run = len(tasks) - skipped
    rows = [
        {"task": task, "demonstrations": "kernel", "skipped": None if place < run else "too long"}
        for place, task in enumerate(tasks)
    ]
    return pl.DataFrame(rows, schema=frame_schema(PROMPTS))


def summary(skipped: int = 0) -> pl.DataFrame:
    tasks = ("news", "reviews") if not skipped else ("news", "reviews", "long")
    parts = [
        (
            kernel({(0, 0): [0, 0], (1, 0): [0, 1]}, task, seed),
            predictions([0, 1], [1, 1], task, seed),
        )
        for task in ("news", "reviews")
        for seed in (0, 1)
    ]
    return summarize_heads(
        pl.concat([k for k, _ in parts]),
        pl.concat([p for _, p in parts]),
        prompts(tasks, skipped),
        100,
        0.9,
    )


def test_a_task_whose_prompts_are_all_too_long_keeps_its_rows() -> None:
    table = summary(skipped=1)
    rows = table.filter(pl.col("task") == "long")
    assert len(rows) == 2 * 3 * 3
    assert rows["mean"].null_count() == len(rows)
    assert rows["skipped"].unique().to_list() == [1]
    assert table.filter(pl.col("task") == AVERAGE)["skipped"].unique().to_list() == [1]


def test_summary_has_every_head_task_and_average() -> None:
    table = summary()
    assert table.schema == frame_schema(HEADS)
    assert len(table) == 3 * 2 * 3 * 3  # tasks and average, heads, weights, measures
    shown = table.filter(
        pl.col("task") == AVERAGE, pl.col("weights") == "max", pl.col("layer") == 1
    )
    values = dict(shown.select("measure", "mean").iter_rows())
    assert values == {"agreement": 1.0, "accuracy": 0.5, "correlation": 0.5}
    assert shown["examples"].unique().to_list() == [8]
    low = table.filter(pl.col("measure") == "accuracy")
    assert (low["low"] <= low["mean"]).all()
    assert (low["high"] >= low["mean"]).all()


def test_the_table_lists_the_best_heads_first() -> None:
    rows = tabulate_heads(summary(), most=1)
    assert rows.select("task", "layer", "head").rows() == [
        ("news", 1, 0),
        ("reviews", 1, 0),
        (AVERAGE, 1, 0),
    ]
    assert rows["agreement"][0].startswith("1.00 [")


def test_the_figure_marks_the_best_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    titles: list[str] = []
    set_title = Axes.set_title

    def note(axes: Axes, text: str, *more: Any, **settings: Any) -> Any:
        titles.append(text)
        return set_title(axes, text, *more, **settings)

    monkeypatch.setattr(Axes, "set_title", note)
    draw_heads(summary(), STYLE, 0.9, {"png": tmp_path / "heads.png"})
    assert titles[0] == "news\n1.00 in layer 1, head 0"
    assert (tmp_path / "heads.png").stat().st_size > 5000
