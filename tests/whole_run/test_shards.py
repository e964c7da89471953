"""Runs in shards: their jobs, and the files of a run without."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from anchorflow.config.stages import MEASURED, SHARDED
from anchorflow.statistics.estimates import correlations
from checkout import Checkout
from job_messages import TWIN, by_default, cells, measures, message_of
from table_files import assert_same

TASKS, SEEDS = ["reviews", "news"], [0, 1]
TWIN_STAGES = ("flow", "compression")
STAGES = [stage.name for stage in MEASURED if stage.name in SHARDED and measures(stage)]
SPLIT = [message_of(f"measure_{stage}") for stage in STAGES]


def gathering(planned: set[str]) -> set[str]:
    return {message for message in planned if message.startswith("Gathering")}


def test_each_shard_is_a_job_and_each_table_is_gathered_once(
    copy_checkout: Callable[[], Checkout],
) -> None:
    checkout = copy_checkout()
    whole = checkout.planned()
    split = cells(SPLIT, TASKS, SEEDS)
    assert split | cells(["confusion"], TASKS, SEEDS) <= whole
    assert not gathering(whole)
    checkout.config["compute"] = {"examples_per_shard": 6}  # all that there are
    assert checkout.planned() == whole

    checkout.config["compute"] = {"examples_per_shard": 4}
    planned = checkout.planned()
    shards = {f"{job}, test texts {part}" for job in split for part in ("0-4", "4-6")}
    assert planned - gathering(planned) == whole - split | shards
    gather = "Gathering the shards of {stage} of {task} in tiny, seed {seed}"
    of_twin = [gather.format(stage=s, task="{task}", seed="{seed}") for s in TWIN_STAGES]
    of_twin = [template.replace("tiny", TWIN) for template in of_twin]
    own = [gather.format(stage=s, task="{task}", seed="{seed}") for s in STAGES]
    assert gathering(planned) == cells([*own, *of_twin], TASKS, SEEDS)


CELL_FILES = [
    path.format(model="tiny", task="news", seed=0)
    for stage in MEASURED
    if stage.sharded and by_default(stage.asked_for)
    for _, _, path in stage.files()
]

# Correlations with similarities that differ by 6e-5 of themselves, which magnifies rounding.
MAGNIFIED = {"correlation": "similarity", "correlation_in_template": "similarity_in_template"}


def assert_correlations_are_of_what_is_kept(folder: Path) -> None:
    """Correlations are those of the attention and the similarities in the files beside them."""
    names = ("attention", "similarity", "kernel")
    attention, similarity, kernel = (pl.read_parquet(folder / f"{n}.parquet") for n in names)
    for (example,), rows in attention.group_by("example"):
        of_example = similarity.filter(example=example).sort("demonstration")
        for kind in ("max", "label", "mean"):
            shown = np.array(rows.sort("layer", "head")[f"attention_{kind}"].to_list(), float)
            rows_told = kernel.filter(example=example, weights=kind).sort("layer", "head")
            for name, by in MAGNIFIED.items():
                similar = of_example[by].to_numpy().astype(float)
                assert rows_told[name].is_not_null().any()
                np.testing.assert_allclose(
                    rows_told[name].fill_null(np.nan).to_numpy(),
                    correlations(shown, similar),
                    rtol=1e-9,
                )


@pytest.mark.long
def test_a_run_in_shards_leaves_the_files_of_a_run_without(finished_run: Checkout) -> None:
    folder = finished_run.folder

    def read(file: str) -> pl.DataFrame:
        return pl.read_parquet(folder / file)

    whole = {file: read(file) for file in CELL_FILES}
    schemas = {file: pq.read_schema(folder / file) for file in CELL_FILES}
    for file in CELL_FILES:
        (folder / file).unlink()
    finished_run.config["compute"] = {"examples_per_shard": 4}
    finished_run.snakemake("--cores", "2", *CELL_FILES)
    assert_correlations_are_of_what_is_kept(folder / "results/kernel/tiny/news/0")
    for file in CELL_FILES:
        parts = [frame.drop(*MAGNIFIED, strict=False) for frame in (read(file), whole[file])]
        assert_same(*parts)
        assert pq.read_schema(folder / file).equals(schemas[file], check_metadata=True)
    assert not list((folder / "results/shards").rglob("*.parquet"))
    assert finished_run.planned(*CELL_FILES) == set()


@pytest.mark.long
def test_another_size_of_shards_rebuilds_nothing_that_was_touched(finished_run: Checkout) -> None:
    finished_run.config["compute"] = {"examples_per_shard": 4}
    assert gathering(finished_run.planned())
    before = (finished_run.folder / CELL_FILES[0]).read_bytes()
    finished_run.snakemake("--cores", "1", "--touch")
    assert finished_run.planned() == set()
    assert (finished_run.folder / CELL_FILES[0]).read_bytes() == before
    finished_run.change_code("analyses/flow/measure.py")
    split = cells(["flow"], TASKS, SEEDS)
    shards = {f"{job}, test texts {part}" for job in split for part in ("0-4", "4-6")}
    assert shards <= finished_run.planned()
