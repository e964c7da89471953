"""Which test texts a shard has, and where shards are gathered."""

import polars as pl
import pytest

from anchorflow.config.shards import examples_of, gathered, is_first, shard_names
from tiny_models import shared_prompts

CELL = shared_prompts([5, 17, 9, 12, 6, 21, 8]).with_columns(demonstrations=pl.lit("fixed"))


def test_shards_cover_every_test_text_once() -> None:
    assert shard_names(7, 3) == ["0-3", "3-6", "6-7"]
    assert shard_names(7, 1) == [f"{k}-{k + 1}" for k in range(7)]
    covered = [examples_of(shard, CELL) for shard in shard_names(7, 3)]
    assert covered == [[0, 1, 2], [3, 4, 5], [6]]
    assert [is_first(shard) for shard in (None, *shard_names(30, 10))] == [True, True, False, False]


def test_shards_are_gathered_where_one_job_would_write() -> None:
    cell = "{model}/{task}/{seed}"
    assert gathered(f"results/shards/kernel/{cell}/{{examples}}/states.parquet") == (
        f"results/kernel/{cell}/states.parquet"
    )


@pytest.mark.parametrize("size", [None, 7, 100])
def test_a_test_set_that_fits_one_job_has_no_shards(size: int | None) -> None:
    assert shard_names(7, size) == []
    assert examples_of(None, CELL) is None


def test_a_shard_has_the_same_test_texts_whatever_the_demonstrations() -> None:
    fixed = CELL.filter(pl.col("example") != 2).with_columns(pl.col("example") * 10)
    anew = fixed.reverse().with_columns(demonstrations=pl.lit("per_example"))
    training = CELL.with_columns(demonstrations=pl.lit("training"))
    assert examples_of("1-3", pl.concat([training, anew, fixed])) == [10, 30]
