"""Tables of summaries that have no module of their own."""

import polars as pl
import pytest

from anchorflow.schemas.accuracy import ACCURACY
from anchorflow.schemas.deep import DEEP
from anchorflow.schemas.frames import frame_schema
from anchorflow.summarize.by_task import AVERAGE
from anchorflow.summarize.loyalty import MEASURES, summarize_loyalty
from anchorflow.summarize.neighbors import summarize_neighbors
from anchorflow.tabulate.plain import tabulate_plain
from constructed.confusion import of_two_labels
from constructed.interventions import isolation
from constructed.interventions import isolation_prompts as prompts
from constructed.kernel import (
    heads_summary,
    landing_summary,
    probes_summary,
    summary_of_nothing,
)
from constructed.neighbors import ANSWERS, prompts_of, rows_of, with_a_task_skipped_whole
from constructed.rows import CELL, INTERVAL


def test_a_summary_without_a_table_of_its_own_has_a_row_per_key_and_a_column_per_measure() -> None:
    rows = [
        (model, "news", layer, measure, *INTERVAL, 1)
        for measure in ("auc", "cumulative")
        for model in ("a", "b")
        for layer in range(2)
        if (model, layer, measure) != ("b", 1, "auc")
    ]
    summary = pl.DataFrame(rows, schema=frame_schema(DEEP), orient="row")
    page = tabulate_plain("another", summary, "Title", ("task", "layer", "measure"))
    assert (page.title, page.note) == (
        "Title",
        "One row per task, layer; a column per measure, with intervals.",
    )
    assert page.table.columns == ["model", "task", "layer", "auc", "cumulative"]
    cells = [CELL, CELL, CELL, "–"]
    index = [(model, "news", layer) for model in ("a", "b") for layer in range(2)]
    expected = [(*key, auc, CELL) for key, auc in zip(index, cells, strict=True)]
    assert sorted(page.table.rows()) == expected


def test_accuracy_has_one_row_per_model_and_task() -> None:
    rows = [
        (model, task, measure, *INTERVAL, 3)
        for model in ("a", "b")
        for task in ("news", "average")
        for measure in ("accuracy", "majority")
    ]
    table = tabulate_plain(
        "accuracy", pl.DataFrame(rows, schema=frame_schema(ACCURACY), orient="row")
    ).table
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
    table = tabulate_plain(
        "accuracy", pl.DataFrame(rows, schema=frame_schema(ACCURACY), orient="row")
    ).table
    assert table["accuracy"].to_list() == ["–", CELL]


def test_the_table_has_a_row_per_way_to_isolate() -> None:
    table = tabulate_plain("loyalty", summarize_loyalty(isolation(), prompts(), 0.95)).table
    assert table.columns == ["model", "variant", "layers", "side", "positions", *MEASURES]
    assert table["positions"].to_list() == ["label", "random"]
    assert table["label_loyalty"][0].startswith("0.50 [")


def test_deep_shows_both_measures_of_a_layer_side_by_side() -> None:
    rows = [
        ("a", "news", layer, measure, *INTERVAL, 1)
        for measure in ("auc", "cumulative")
        for layer in range(2)
    ]
    table = tabulate_plain(
        "deep", pl.DataFrame(rows, schema=frame_schema(DEEP), orient="row")
    ).table
    assert table.columns == ["model", "task", "layer", "unpredicted", "auc", "cumulative"]
    assert table.rows() == [("a", "news", layer, 1, CELL, CELL) for layer in range(2)]


def test_a_run_without_three_labels_still_has_a_table() -> None:
    assert tabulate_plain("confusion", of_two_labels()).table["average"].to_list() == ["–", "–"]


@pytest.mark.parametrize("left_out", [("nearest", 3), ("random", 3)])
def test_skipped_examples_stand_behind_the_gain_and_the_choice_that_skips_them(
    left_out: tuple[str, int],
) -> None:
    summary = summarize_neighbors(
        rows_of("news", 2, left_out), *prompts_of("news", 2, left_out), 0.9
    )
    table = tabulate_plain("neighbors", summary).table.filter(task="news", choice="nearest")
    assert table["accuracy_gain"].item().endswith(" (2 skipped)")
    assert ("skipped" in table["accuracy"].item()) == (left_out[0] == "nearest")


def test_a_task_skipped_whole_with_one_choice_keeps_its_rows() -> None:
    table = tabulate_plain("neighbors", with_a_task_skipped_whole()).table
    pairs = [(task, choice) for task in ("news", "long", "average") for choice in ANSWERS]
    assert table.select("task", "choice").rows() == pairs
    assert table.filter(task="long", choice="nearest")["accuracy"].item() == "– (4 skipped)"
    assert table.filter(task="news", choice="random")["accuracy_gain"].item() == "–"


def test_the_table_lists_the_best_heads_first() -> None:
    rows = tabulate_plain("heads", heads_summary()).table
    best = rows.group_by("task", maintain_order=True).first()
    assert best.select("task", "layer", "head").rows() == [
        ("news", 1, 0),
        ("reviews", 1, 0),
        (AVERAGE, 1, 0),
    ]
    assert rows["agreement"][0].startswith("1.00 [")


def test_the_table_has_a_row_per_layer_and_one_of_tokens() -> None:
    rows = tabulate_plain("landing", landing_summary()).table
    assert rows["layer"].to_list() == ["0", "1", "tokens"]
    assert rows["label"][0].startswith("0.40 [")
    assert rows["text"][2].startswith("0.67 [")


def test_the_table_shows_every_offset() -> None:
    rows = tabulate_plain("decoding", probes_summary()).table
    assert rows["offset"].unique().sort().to_list() == [-1, 0]
    assert len(rows) == 2 * 2 * 2


def test_nothing_to_decode_is_a_table_without_rows() -> None:
    assert tabulate_plain("decoding", summary_of_nothing()).table.is_empty()
