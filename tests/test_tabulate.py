"""Tables for people: cells, the chosen layers, and whole files."""

from pathlib import Path

import polars as pl
import pytest

from anchorflow.tables import ACCURACY, DEEP, FLOW, frame_schema
from anchorflow.tabulate import (
    at_depths,
    cell,
    tabulate_accuracy,
    tabulate_deep,
    tabulate_flow,
    write_csv,
    write_markdown,
    write_readable,
)

INTERVAL = (0.25, 0.125, 0.5, 10, 2)  # mean, low, high, examples, seeds
CELL = "0.25 [0.12, 0.50]"


@pytest.mark.parametrize(
    ("mean", "low", "high", "text"),
    [
        (0.614, 0.546, 0.679, "0.61 [0.55, 0.68]"),
        (0.5, None, None, "0.50"),
        (None, None, None, "–"),
        (1.0, 1.0, 1.0, "1.00 [1.00, 1.00]"),
        (-0.001, -0.01, -0.0, "0.00 [-0.01, 0.00]"),
    ],
)
def test_a_cell_shows_a_value_with_its_interval(
    mean: float | None, low: float | None, high: float | None, text: str
) -> None:
    assert cell(mean, low, high) == text


@pytest.mark.parametrize(
    ("layers", "chosen"),
    [(1, [0]), (3, [0, 1, 2]), (5, [0, 1, 2, 3, 4]), (24, [0, 6, 12, 17, 23])],
)
def test_five_depths_are_shown_or_all_layers_of_a_shallow_model(
    layers: int, chosen: list[int]
) -> None:
    summary = pl.DataFrame({"model": ["tiny"] * layers, "layer": range(layers)})
    assert at_depths(summary)["layer"].to_list() == chosen


def test_depths_are_those_of_each_model() -> None:
    summary = pl.DataFrame({"model": ["a"] * 9 + ["b"] * 2, "layer": [*range(9), 0, 1]})
    assert at_depths(summary).rows() == [("a", i) for i in (0, 2, 4, 6, 8)] + [("b", 0), ("b", 1)]


def test_accuracy_has_one_row_per_model_and_task() -> None:
    rows = [
        (model, task, measure, *INTERVAL, 3)
        for model in ("a", "b")
        for task in ("news", "average")
        for measure in ("accuracy", "majority")
    ]
    table = tabulate_accuracy(pl.DataFrame(rows, schema=frame_schema(ACCURACY), orient="row"))
    assert table.columns == [
        *("model", "task", "examples", "seeds", "skipped", "accuracy", "majority")
    ]
    assert table.rows() == [
        (model, task, 10, 2, 3, CELL, CELL) for model in ("a", "b") for task in ("news", "average")
    ]


def test_a_task_without_a_value_shows_dashes_in_its_own_row() -> None:
    rows = [
        ("a", "news", "accuracy", None, None, None, 0, 0, 24),
        ("a", "average", "accuracy", *INTERVAL, 24),
    ]
    table = tabulate_accuracy(pl.DataFrame(rows, schema=frame_schema(ACCURACY), orient="row"))
    assert table["accuracy"].to_list() == ["–", CELL]


def test_flow_shows_proportions_only() -> None:
    rows = [
        ("a", "news", layer, flow, scale, value, None, None, 10, 2, 3)
        for layer in range(2)
        for flow, value in (("s_wp", 0.25), ("s_pq", 0.5))
        for scale, value in (("absolute", 9.0), ("proportion", value))
    ]
    table = tabulate_flow(pl.DataFrame(rows, schema=frame_schema(FLOW), orient="row"))
    assert table.columns == ["model", "task", "examples", "skipped", "layer", "s_wp", "s_pq"]
    assert table.rows() == [("a", "news", 10, 3, layer, "0.25", "0.50") for layer in range(2)]


def test_deep_shows_both_measures_of_a_layer_side_by_side() -> None:
    rows = [
        ("a", "news", layer, measure, *INTERVAL, 1)
        for measure in ("auc", "cumulative")
        for layer in range(2)
    ]
    table = tabulate_deep(pl.DataFrame(rows, schema=frame_schema(DEEP), orient="row"))
    assert table.columns == ["model", "task", "layer", "unpredicted", "auc", "cumulative"]
    assert table.rows() == [("a", "news", layer, 1, CELL, CELL) for layer in range(2)]


def test_markdown_is_a_title_a_table_and_a_note(tmp_path: Path) -> None:
    frame = pl.DataFrame({"model": ["a", "b"], "auc": ["0.50", "–"]})
    write_markdown(tmp_path / "table.md", "Depth", "How to read it.", frame)
    assert (tmp_path / "table.md").read_text(encoding="utf-8") == (
        "# Depth\n\n| model | auc |\n|---|---|\n| a | 0.50 |\n| b | – |\n\nHow to read it.\n"
    )


def test_no_cell_ends_its_cell_or_row(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a|b": ["x | y\nz"], "<b>": ["<script>"]})
    write_readable({kind: tmp_path / kind for kind in ("md", "html")}, "Title", "Note.", frame)
    lines = (tmp_path / "md").read_text(encoding="utf-8").splitlines()
    assert lines[2:5] == [r"| a\|b | <b> |", "|---|---|", r"| x \| y z | <script> |"]
    page = (tmp_path / "html").read_text(encoding="utf-8")
    assert "<td>&lt;script&gt;</td>" in page
    assert "<script>" not in page


def test_csv_holds_all_rows_and_leaves_undefined_values_empty(tmp_path: Path) -> None:
    frame = pl.DataFrame({"task": ["news", "a, b"], "mean": [0.25, None]})
    write_csv(tmp_path / "deep" / "table.csv", frame)
    assert (tmp_path / "deep" / "table.csv").read_text(encoding="utf-8") == (
        'task,mean\nnews,0.25\n"a, b",\n'
    )
