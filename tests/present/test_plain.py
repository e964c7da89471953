"""Tables of summaries that have no module of their own."""

import polars as pl

from anchorflow.analyses.attention.schema import ATTENTION_SUMMARY
from anchorflow.present.plain import tabulate_keys
from anchorflow.schemas.frames import frame_schema
from constructed.rows import CELL, INTERVAL


def test_a_summary_without_a_table_of_its_own_has_a_row_per_key_and_a_column_per_measure() -> None:
    rows = [
        (model, "news", layer, measure, *INTERVAL, 1)
        for measure in ("auc", "cumulative")
        for model in ("a", "b")
        for layer in range(2)
        if (model, layer, measure) != ("b", 1, "auc")
    ]
    summary = pl.DataFrame(rows, schema=frame_schema(ATTENTION_SUMMARY), orient="row")
    page = tabulate_keys(summary, "Title", ("task", "layer", "measure"))
    assert (page.title, page.note) == (
        "Title",
        "One row per task, layer; a column per measure, with intervals.",
    )
    assert page.table.columns == ["model", "task", "layer", "auc", "cumulative"]
    cells = [CELL, CELL, CELL, "–"]
    index = [(model, "news", layer) for model in ("a", "b") for layer in range(2)]
    expected = [(*key, auc, CELL) for key, auc in zip(index, cells, strict=True)]
    assert sorted(page.table.rows()) == expected
