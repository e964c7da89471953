"""Orders of demonstrations: run on request, from the same demonstrations as kernel regression."""

import polars as pl
import pytest

from checkout import Checkout
from job_messages import cells, presented


@pytest.mark.long
def test_orders_are_run_if_there_are_some_and_rebuild_nothing_else(finished_run: Checkout) -> None:
    tasks, seeds, config = ["reviews", "news"], [0, 1], finished_run.config
    config["orders"] = {"count": 2}
    planned = cells(["orders"], tasks, seeds) | presented("orders")
    assert finished_run.planned() == planned
    finished_run.snakemake("--cores", "2", "results/figures/orders/tiny.png")
    results = finished_run.folder / "results"
    measured = pl.read_parquet(results / "orders/tiny/news/1/predictions.parquet")
    first = measured.filter(arrangement="order", number=0).sort("example")
    kernel = pl.read_parquet(results / "kernel/tiny/news/1/predictions.parquet").sort("example")
    assert first["prediction"].to_list() == kernel["prediction"].to_list()
    config["kernel"]["chosen_on"] = 0.7
    assert cells(["orders"], tasks, seeds).isdisjoint(finished_run.planned())
    config["orders"] = {"count": 3}
    assert cells(["orders"], tasks, seeds) <= finished_run.planned()
    config["orders"] = {"count": 0}
    said = finished_run.snakemake("-n", "results/summaries/orders/tiny.parquet", ok=False)
    assert "orders.count: it is 0, so there is nothing of this kind" in said
