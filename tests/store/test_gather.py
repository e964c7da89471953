"""Gathered shards: the bytes that one job writes, in little memory, or one sentence."""

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anchorflow.analyses.flow import FLOW
from anchorflow.config.errors import InputError
from anchorflow.schemas.embeddings import EMBEDDINGS
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.store.all_tables import TABLES
from anchorflow.store.gather import gather
from anchorflow.store.parquet import read_table, write_frame
from table_files import write


def flows(examples: range) -> pl.DataFrame:
    """Rows of the flow table with values that do not compress."""
    rows = len(examples) * 3
    random = np.random.default_rng(examples.start)
    return keyed(
        pl.DataFrame(
            {
                "example": np.repeat(np.array(examples), 3),
                "layer": np.tile(np.arange(3), len(examples)),
                **{name: random.random(rows) for name in FLOW.names[5:]},
            }
        ),
        {"model": "m", "task": "t", "seed": 0},
        FLOW,
    )


def split(rows: pl.DataFrame, *ends: int) -> list[pl.DataFrame]:
    """The rows up to each test text, and the rest."""
    return [
        rows.filter(pl.col("example").is_between(first, last, closed="left"))
        for first, last in itertools.pairwise([0, *ends, 10**9])
    ]


def test_a_gathered_file_s_bytes_do_not_depend_on_the_shards(tmp_path: Path) -> None:
    rows = flows(range(40))  # 3 layers
    written = set()
    for number, ends in enumerate(([], [3, 20], [1, 1, 13, 14, 30, 40])):
        path = tmp_path / f"{number}.parquet"
        shards = write(tmp_path / str(number), "flow", split(rows, *ends))
        gather(shards, path, rows=32)
        assert read_table(path, FLOW).equals(rows)
        groups = pq.ParquetFile(path).metadata
        assert [groups.row_group(k).num_rows for k in range(4)] == [32, 32, 32, 24]
        written.add(path.read_bytes())
    assert len(written) == 1


@pytest.mark.parametrize("examples", [0, 5])
def test_a_gathered_file_is_the_one_that_one_job_writes(examples: int, tmp_path: Path) -> None:
    rows = flows(range(examples))  # 3 layers
    parts = split(rows, 1, 2, 4)
    gather(write(tmp_path, "flow", parts), tmp_path / "gathered.parquet")
    write_frame(tmp_path / "one.parquet", FLOW, pl.concat([parts[0], rows[3:]]), {"spec": 1})
    assert (tmp_path / "gathered.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()
    assert read_table(tmp_path / "gathered.parquet", FLOW).equals(rows)


def test_wide_rows_make_smaller_groups_however_they_are_gathered(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"task": "t", "split": "train", "row": range(40_000), "embedding": [[0.5, 1.0]] * 40_000},
        schema=frame_schema(EMBEDDINGS),
    )
    whole = tmp_path / "whole.parquet"
    write_frame(whole, EMBEDDINGS, rows, {"spec": 1})
    parts = [tmp_path / f"{number}.parquet" for number in range(2)]
    for path, part in zip(parts, (rows[:33_000], rows[33_000:]), strict=True):
        write_frame(path, EMBEDDINGS, part, {"spec": 1})
    gather(parts, tmp_path / "gathered.parquet")
    assert (tmp_path / "gathered.parquet").read_bytes() == whole.read_bytes()
    assert pq.ParquetFile(whole).num_row_groups == 2


def peak_of_gathering(shards: Sequence[Path], path: Path) -> int:
    """Bytes that Arrow holds at most."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.default_memory_pool())
    pa.set_memory_pool(pool)
    try:
        gather(shards, path, rows=4096)
    finally:
        pa.set_memory_pool(before)
    return pool.max_memory()


def test_gathering_four_times_the_shards_takes_no_more_memory(tmp_path: Path) -> None:
    size = 10_000
    shards = write(tmp_path, "flow", split(flows(range(8 * size)), *range(size, 8 * size, size)))
    peak = peak_of_gathering(shards[:2], tmp_path / "two.parquet")
    assert 0 < peak_of_gathering(shards, tmp_path / "eight.parquet") < 1.2 * peak


def overwrite(path: Path) -> None:
    """The footer stays as it is, so that only reading the rows finds it."""
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)


EMPTY = pl.DataFrame(schema=frame_schema(TABLES["texts"]))
DAMAGED = "damaged, or not a table that this workflow wrote"


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda path, _: path.write_bytes(path.read_bytes()[:-200]), DAMAGED),
        (lambda path, _: overwrite(path), DAMAGED),
        (lambda path, _: path.unlink(), "the shard is missing; run the workflow to build it."),
        (
            lambda path, _: write_frame(path, TABLES["texts"], EMPTY, {}),
            "its columns are not those of the flow table; delete it and run",
        ),
        (
            lambda path, _: write_frame(path, FLOW, read_table(path, FLOW), {"spec": 2}),
            "its settings differ from those of .*0.parquet, so they can't be",
        ),
        (
            lambda path, first: path.write_bytes(first.read_bytes()),
            "it contains test texts of earlier shards; delete it and run again",
        ),
    ],
)
def test_a_shard_that_is_not_what_it_should_be_is_named(
    spoil: Callable[[Path, Path], object], sentence: str, tmp_path: Path
) -> None:
    shards = write(tmp_path, "flow", split(flows(range(300)), 100, 200))
    spoil(shards[1], shards[0])
    with pytest.raises(InputError, match=f"^{shards[1]}: {sentence}"):
        gather(shards, tmp_path / "whole.parquet")
    assert not (tmp_path / "whole.parquet").exists()
