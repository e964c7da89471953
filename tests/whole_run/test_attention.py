"""Attention and predictions in a finished run."""

import polars as pl
import pytest

from checkout import Checkout


def test_an_artifact_holds_every_example_layer_head_and_demonstration(
    finished_run: Checkout,
) -> None:
    folder = finished_run.folder / "results"
    attention = pl.read_parquet(folder / "attention/tiny/news/0/attention.parquet")
    assert attention.shape[0] == 6 * 3 * 4 * 4  # examples, layers, heads, demonstrations
    assert attention.select("example", "layer", "head", "demonstration").is_unique().all()
    predictions = pl.read_parquet(folder / "attention/tiny/news/0/predictions.parquet")
    assert predictions["probabilities"].list.sum().to_list() == pytest.approx([1.0] * 6)
    assert predictions["top_probabilities"].list.len().unique().to_list() == [5]
    best = predictions.select(pl.col("probabilities").list.arg_max())["probabilities"]
    assert best.to_list() == predictions["prediction"].to_list()
