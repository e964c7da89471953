"""Compression in a finished run."""

import numpy as np
import polars as pl

from anchorflow.kept_positions import AT_ANY_BUDGET
from checkout import Checkout


def test_an_artifact_holds_every_example_and_way(finished_run: Checkout) -> None:
    rows = pl.read_parquet(finished_run.folder / "results/compression/tiny/news/0.parquet")
    assert rows.select("example", "method", "share", "draw").is_unique().all()
    # Everything, nothing, five methods, two of three draws more, two that are re-weighted, and one
    # share each.
    spec = finished_run.config["compression"]
    swept = [method for method in spec["methods"] if method in AT_ANY_BUDGET]
    ways = 2 + len(spec["methods"]) + spec["draws"] - 1 + 2 + len(spec["shares"]) * len(swept)
    assert rows.shape[0] == 6 * ways
    before = pl.read_parquet(
        finished_run.folder / "results/attention/tiny/news/0/predictions.parquet"
    )
    full = rows.filter(pl.col("method") == "full").sort("example")
    assert full["top_tokens"].to_list() == before.sort("example")["top_tokens"].to_list()
    after = pl.read_parquet(
        finished_run.folder / "results/reweighting/tiny/news/0/predictions.parquet"
    )
    ours = rows.filter(pl.col("method") == "reweighted").sort("example")["probabilities"]
    theirs = after.filter(pl.col("method") == "reweighted").sort("example")["probabilities"]
    np.testing.assert_allclose(ours.to_list(), theirs.to_list(), rtol=1e-4)
