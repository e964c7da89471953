"""Retrieval in a finished run."""

import polars as pl

from checkout import Checkout


def test_artifacts_hold_every_choice_beside_random_demonstrations(finished_run: Checkout) -> None:
    folder = finished_run.folder / "results"
    cell = folder / "retrieval/tiny/news/1"
    predictions = pl.read_parquet(cell / "predictions.parquet")
    choices = ["random", "nearest", "nearest_per_label"]
    assert predictions["choice"].to_list() == choices * 6
    similarity = predictions.group_by("choice").agg(pl.col("similarity").mean())
    mean = dict(similarity.iter_rows())
    assert mean["nearest"] >= mean["nearest_per_label"] > mean["random"]
    samples = pl.read_parquet(cell / "samples.parquet").filter(demonstrations="nearest_per_label")
    assert {tuple(sorted(shown)) for shown in samples["demonstration_labels"]} == {(0, 1, 2, 3)}
    random = predictions.filter(choice="random").select("example", "prediction", "probabilities")
    fixed = pl.read_parquet(folder / "attention/tiny/news/1/predictions.parquet")
    assert random.equals(fixed.select(random.columns))
    summary = pl.read_parquet(folder / "summaries/retrieval/tiny.parquet")
    assert set(summary["task"]) == {"reviews", "news", "average"}
    assert set(summary["choice"]) == set(choices)
