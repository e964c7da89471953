"""Isolation in a finished run."""

import polars as pl

from checkout import Checkout


def test_an_artifact_holds_every_example_and_setting(finished_run: Checkout) -> None:
    rows = pl.read_parquet(finished_run.folder / "results/isolation/tiny/news/0.parquet")
    keys = ["example", "variant", "positions", "draw", "side", "layers"]
    assert rows.select(keys).is_unique().all()
    # Whole, without demonstrations; label, before, after, 2 draws; sides, layers.
    assert rows.shape[0] == 6 * (1 + 1 + 5 * 2 * 2)
    predictions = pl.read_parquet(
        finished_run.folder / "results/attention/tiny/news/0/predictions.parquet"
    )
    untouched = rows.filter(pl.col("positions") == "none").sort("example")
    assert untouched["top_tokens"].to_list() == predictions["top_tokens"].to_list()
    assert untouched["prediction"].to_list() == predictions["prediction"].to_list()
