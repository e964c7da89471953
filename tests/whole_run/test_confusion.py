"""Key distances and confused labels in a finished run."""

import polars as pl

from checkout import Checkout


def test_an_artifact_holds_every_layer_and_pair(finished_run: Checkout) -> None:
    rows = pl.read_parquet(finished_run.folder / "results/confusion/tiny/news/0.parquet")
    assert rows.select("heads", "layer", "label", "other").is_unique().all()
    assert rows.shape[0] == 2 * 3 * 6
    assert set(rows["heads"]) == {"concatenated", "separate"}
    assert set(rows.group_by("heads", "layer").agg(pl.col("distance").max())["distance"]) == {1}
    summary = pl.read_parquet(finished_run.folder / "results/summaries/confusion/tiny.parquet")
    assert set(summary["task"]) == {"reviews", "news", "average"}
