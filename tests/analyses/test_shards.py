"""Shards of large test sets: the same numbers however they are split."""

from functools import cache
from pathlib import Path

import pytest

from anchorflow.config.shards import examples_of
from anchorflow.schemas.frames import frame_schema
from anchorflow.store.all_tables import TABLES
from anchorflow.store.gather import gather
from anchorflow.store.parquet import read_table
from table_files import assert_same, write
from tiny_cells import Tables, prompts_of_cell, tiny_runs

PLACES = {1: ["0-7"], 3: ["0-3", "3-6", "6-7"], 7: [f"{k}-{k + 1}" for k in range(7)]}
CELL = prompts_of_cell()
STAGES = tiny_runs("SHARDED")


@cache
def unsharded(stage: str) -> Tables:
    return STAGES[stage](None, 200)


@pytest.mark.parametrize("shards", PLACES)
@pytest.mark.parametrize("stage", STAGES)
def test_gathered_shards_are_what_one_job_measures(stage: str, shards: int, tmp_path: Path) -> None:
    measured = [STAGES[stage](examples_of(shard, CELL), 200) for shard in PLACES[shards]]
    for table, expected in unsharded(stage).items():
        parts = [tables[table] for tables in measured]
        if table == "states":  # of the demonstrations, which all shards share
            for part in parts:
                assert_same(part, expected)
            continue
        path = tmp_path / f"{table}.parquet"
        gather(write(tmp_path / table, table, parts), path)
        assert_same(read_table(path, TABLES[table]), expected)


@pytest.mark.parametrize("stage", STAGES)
def test_the_batch_size_changes_nothing(stage: str) -> None:
    for table, rows in STAGES[stage](None, 60).items():
        assert_same(rows, unsharded(stage)[table])


@pytest.mark.parametrize("stage", STAGES)
def test_a_shard_beyond_the_last_test_text_has_tables_without_rows(stage: str) -> None:
    examples = examples_of("7-9", CELL)
    assert examples == []
    for table, rows in STAGES[stage](examples, 200).items():
        assert rows.schema == frame_schema(TABLES[table])
        assert len(rows) == (len(unsharded(stage)[table]) if table == "states" else 0)
