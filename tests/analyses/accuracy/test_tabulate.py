"""The table of accuracy."""

import polars as pl

from anchorflow.analyses.accuracy.schema import ACCURACY_SUMMARY
from anchorflow.analyses.accuracy.tabulate import tabulate_accuracy
from anchorflow.schemas.frames import frame_schema
from constructed.rows import CELL, INTERVAL


def test_accuracy_has_one_row_per_model_and_task() -> None:
    rows = [
        (model, task, measure, *INTERVAL, 3)
        for model in ("a", "b")
        for task in ("news", "average")
        for measure in ("accuracy", "majority")
    ]
    table = tabulate_accuracy(
        pl.DataFrame(rows, schema=frame_schema(ACCURACY_SUMMARY), orient="row")
    ).table
    assert table.columns == [
        *("model", "task", "examples", "texts", "seeds", "skipped", "accuracy", "majority")
    ]
    assert table.rows() == [
        (model, task, 10, 5, 2, 3, CELL, CELL)
        for model in ("a", "b")
        for task in ("news", "average")
    ]


def test_a_task_without_a_value_shows_dashes_in_its_own_row() -> None:
    rows = [
        ("a", "news", "accuracy", None, None, None, 0, 0, 0, 24),
        ("a", "average", "accuracy", *INTERVAL, 24),
    ]
    table = tabulate_accuracy(
        pl.DataFrame(rows, schema=frame_schema(ACCURACY_SUMMARY), orient="row")
    ).table
    assert table["accuracy"].to_list() == ["–", CELL]
