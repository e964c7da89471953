"""Re-weighting in a finished run."""

import numpy as np
import polars as pl

from checkout import Checkout


def test_an_artifact_holds_every_weight_step_and_prediction(finished_run: Checkout) -> None:
    folder = finished_run.folder / "results/reweighting/tiny/news/0"
    beta = pl.read_parquet(folder / "beta.parquet")
    assert beta.shape[0] == 3 * 4 * 4  # layers, heads, demonstrations
    assert beta["beta"].abs().min() > 0  # every weight was fitted
    prompts = pl.read_parquet(folder / "prompts.parquet")
    order = prompts.filter(pl.col("demonstrations") == "training")["demonstration_labels"][0]
    first = beta.filter(pl.col("layer") == 0, pl.col("head") == 0).sort("demonstration")
    assert first["label"].to_list() == order.to_list()
    descent = pl.read_parquet(folder / "descent.parquet")
    assert descent.filter(pl.col("fold").is_null()).shape[0] == 10 * 16
    rates = pl.read_parquet(folder / "learning_rates.parquet")
    assert rates["chosen"].to_list() == [True]
    predictions = pl.read_parquet(folder / "predictions.parquet")
    assert predictions.select("example", "method").is_unique().all()
    many = prompts.filter(pl.col("demonstrations") == "many")
    assert predictions.shape[0] == 7 * 6 + many["skipped"].null_count()
    before = pl.read_parquet(
        finished_run.folder / "results/attention/tiny/news/0/predictions.parquet"
    )
    vanilla = predictions.filter(pl.col("method") == "vanilla").sort("example")
    np.testing.assert_allclose(
        np.array(vanilla["probabilities"].to_list()),
        np.array(before.sort("example")["probabilities"].to_list()),
        rtol=1e-4,
    )
