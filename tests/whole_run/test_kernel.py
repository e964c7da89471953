"""Kernel regression in a finished run."""

import polars as pl

from checkout import Checkout


def test_artifacts_hold_what_they_should(finished_run: Checkout) -> None:
    folder = finished_run.folder / "results/kernel/tiny/news/0"
    prompts = pl.read_parquet(folder / "prompts.parquet")
    labels = prompts["demonstration_labels"][0].to_list()
    assert len(labels) % 4 == 0
    assert all(sorted(labels[k : k + 4]) == [0, 1, 2, 3] for k in range(0, len(labels), 4))
    assert prompts["query_start"].unique().len() == 1
    kernel = pl.read_parquet(folder / "kernel.parquet")
    assert len(kernel) == 6 * 3 * 4 * 3  # examples, layers, heads, weights
    counts = pl.read_parquet(folder / "counts.parquet")
    powers = [2**k for k in range(9) if 2**k < len(labels) // 4]
    assert counts["demonstrations_per_label"].unique().sort().to_list() == powers
