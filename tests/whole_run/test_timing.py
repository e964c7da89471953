"""Timings in a finished run: of the first seed, and little else depends on them."""

import pytest

from checkout import Checkout
from job_messages import (
    MEASURE,
    presented,
)


@pytest.mark.long
def test_timings_are_taken_for_the_first_seed_and_rebuild_nothing_else(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder / "results/timing/tiny/news"
    assert [path.name for path in folder.iterdir()] == ["0.parquet"]
    target = "results/timing/tiny/news/0.parquet"
    (finished_run.folder / target).unlink()
    assert finished_run.planned() == set()
    assert finished_run.planned(target) == {MEASURE["timing"].format(task="news")}
    finished_run.snakemake("--cores", "2", target)
    assert finished_run.planned() == presented("timing", "claims")
