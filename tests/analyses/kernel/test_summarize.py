"""Kernel regression with each head: agreement, accuracy and correlation worked out by hand."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.kernel import KERNEL_SUMMARY
from anchorflow.analyses.kernel.plot import plot_kernel
from anchorflow.analyses.kernel.summarize import head_keys, head_measures
from anchorflow.analyses.kernel.tabulate import tabulate_kernel
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.by_task import AVERAGE
from constructed.kernel import heads_summary as summary
from constructed.kernel import kernel, predictions
from figure_style import figure_of


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


def test_permuted_weights_are_compared_with_the_model() -> None:
    rows = kernel({(0, 0): [0, 1, 1], (0, 1): [1, 1, None]}).with_columns(
        permuted=pl.when(pl.col("head") == 0).then(pl.col("example").cast(pl.Int32))
    )
    measured = head_measures(rows, predictions([0, 1, 0], [1, 1, 1]))
    assert measured["permuted"][:, :2].tolist() == [[1, 0], [1, 0], [0, 0]]


def test_a_task_whose_prompts_are_all_too_long_keeps_its_rows() -> None:
    table = summary(skipped=1)
    rows = table.filter(task="long")
    assert len(rows) == 2 * 3 * 3 + 2
    assert rows["mean"].null_count() == len(rows)
    assert rows["skipped"].unique().to_list() == [1]
    assert table.filter(task=AVERAGE)["skipped"].unique().to_list() == [1]


def test_summary_has_every_head_task_and_average() -> None:
    table = summary()
    assert table.schema == frame_schema(KERNEL_SUMMARY)
    # Tasks and average; heads, weights, measures; and constants.
    assert len(table) == 3 * (2 * 3 * 3 + 2)
    constant = table.filter(task=AVERAGE, weights="none", layer=-1, head=-1)
    # The model answers 0 and 1, of which either is half; all texts have label 1.
    assert dict(constant.select("measure", "mean").iter_rows()) == {
        "agreement": 0.5,
        "accuracy": 1.0,
    }
    shown = table.filter(task=AVERAGE, weights="max", layer=1)
    values = dict(shown.select("measure", "mean").iter_rows())
    assert values == {"agreement": 1.0, "accuracy": 0.5, "correlation": 0.5}
    assert shown["examples"].unique().to_list() == [8]
    low = table.filter(measure="accuracy")
    assert (low["low"] <= low["mean"]).all()
    assert (low["high"] >= low["mean"]).all()


def test_the_best_head_is_named_in_the_figure_and_first_in_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    title = figure_of(monkeypatch, plot_kernel, summary()).axes[0].get_title()
    assert title.startswith("1.00 in layer 1, head 0\n[")
    assert title.endswith("], constant 0.50")
    table = tabulate_kernel(summary()).table
    best = table.group_by("task", maintain_order=True).first()
    heads = [(task, 1, 0) for task in ("news", "reviews", AVERAGE)]
    assert best.select("task", "layer", "head").rows() == heads
    assert table["agreement"][0].startswith("1.00 [")
