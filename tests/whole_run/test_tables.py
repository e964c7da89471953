"""What the tables of a finished run hold, beside those of other stages."""

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from anchorflow.kept_positions import AT_ANY_BUDGET
from anchorflow.prepare.embeddings import encoder_identity
from anchorflow.store.parquet import read_settings
from checkout import Checkout

EXAMPLES, LAYERS, HEADS, LABELS = 6, 3, 4, 4  # of the small run's model and of the task news


@pytest.fixture
def results(shared_run: Checkout) -> Path:
    return shared_run.folder / "results"


def answers(results: Path, seed: int = 0) -> pl.DataFrame:
    """The model's predictions with fixed demonstrations."""
    table = pl.read_parquet(results / f"attention/tiny/news/{seed}/predictions.parquet")
    return table.sort("example")


def assert_as_likely(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    ours, theirs = (t.sort("example")["probabilities"].to_list() for t in (found, expected))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4)


def test_attention_has_every_example_layer_head_and_demonstration(results: Path) -> None:
    attention = pl.read_parquet(results / "attention/tiny/news/0/attention.parquet")
    assert attention.shape[0] == EXAMPLES * LAYERS * HEADS * LABELS
    assert attention.select("example", "layer", "head", "demonstration").is_unique().all()
    predictions = answers(results)
    assert predictions["probabilities"].list.sum().to_list() == pytest.approx([1.0] * EXAMPLES)
    assert predictions["top_probabilities"].list.len().unique().to_list() == [5]
    best = predictions["probabilities"].list.arg_max()
    assert best.to_list() == predictions["prediction"].to_list()


def test_compression_has_every_example_and_way(results: Path, shared_run: Checkout) -> None:
    rows = pl.read_parquet(results / "compression/tiny/news/0.parquet")
    assert rows.select("example", "method", "share", "draw").is_unique().all()
    # Everything, nothing, five methods, two of three draws more, two that are re-weighted, and one
    # share each.
    spec = shared_run.config["compression"]
    swept = [method for method in spec["methods"] if method in AT_ANY_BUDGET]
    ways = 2 + len(spec["methods"]) + spec["draws"] - 1 + 2 + len(spec["shares"]) * len(swept)
    assert rows.shape[0] == EXAMPLES * ways
    full = rows.filter(method="full").sort("example")
    assert full["top_tokens"].to_list() == answers(results)["top_tokens"].to_list()
    after = pl.read_parquet(results / "reweighting/tiny/news/0/predictions.parquet")
    assert_as_likely(rows.filter(method="reweighted"), after.filter(method="reweighted"))


def test_key_distances_have_every_layer_and_pair(results: Path) -> None:
    rows = pl.read_parquet(results / "confusion/tiny/news/0.parquet")
    assert rows.select("heads", "layer", "label", "other").is_unique().all()
    assert rows.shape[0] == 2 * LAYERS * 6
    assert set(rows["heads"]) == {"concatenated", "separate"}
    assert set(rows.group_by("heads", "layer").agg(pl.col("distance").max())["distance"]) == {1}
    summary = pl.read_parquet(results / "summaries/confusion/tiny.parquet")
    assert set(summary["task"]) == {"reviews", "news", "average"}


def test_embeddings_have_every_text_and_tell_their_encoder(
    results: Path, shared_run: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    embeddings = pl.read_parquet(results / "embeddings/news.parquet")
    texts = pl.read_parquet(results / "texts/news.parquet")
    assert embeddings.select("task", "split", "row").equals(texts.select("task", "split", "row"))
    monkeypatch.chdir(shared_run.folder)
    path = shared_run.config["encoder"]["path"]
    weights = (Path(path) / "model.safetensors").read_bytes()
    encoder = {"path": path, "sha256": {"model.safetensors": hashlib.sha256(weights).hexdigest()}}
    assert encoder_identity(path, Path(path)) == encoder
    assert read_settings(results / "embeddings/news.parquet") == {"encoder": encoder}


def test_isolation_has_every_example_and_setting(results: Path) -> None:
    rows = pl.read_parquet(results / "isolation/tiny/news/0.parquet")
    keys = ["example", "variant", "positions", "draw", "side", "layers"]
    assert rows.select(keys).is_unique().all()
    # Whole, without demonstrations; label, before, after, 2 draws; sides, layers.
    assert rows.shape[0] == EXAMPLES * (1 + 1 + 5 * 2 * 2)
    same = ["top_tokens", "prediction"]
    untouched = rows.filter(positions="none").sort("example").select(same)
    assert untouched.equals(answers(results).select(same))


def test_kernel_regression_has_every_head_and_count(results: Path) -> None:
    folder = results / "kernel/tiny/news/0"
    prompts = pl.read_parquet(folder / "prompts.parquet")
    labels = prompts["demonstration_labels"][0].to_list()
    rounds = len(labels) // LABELS
    assert np.sort(np.reshape(labels, (rounds, LABELS))).tolist() == [[0, 1, 2, 3]] * rounds
    assert prompts["query_start"].unique().len() == 1
    kernel = pl.read_parquet(folder / "kernel.parquet")
    assert len(kernel) == EXAMPLES * LAYERS * HEADS * 3  # weights
    counts = pl.read_parquet(folder / "counts.parquet")
    powers = [2**k for k in range(9) if 2**k < rounds]
    assert counts["demonstrations_per_label"].unique().sort().to_list() == powers


def test_retrieval_has_every_choice_beside_random_demonstrations(results: Path) -> None:
    cell = results / "retrieval/tiny/news/1"
    predictions = pl.read_parquet(cell / "predictions.parquet")
    choices = ["random", "nearest", "nearest_per_label"]
    assert predictions["choice"].to_list() == choices * EXAMPLES
    similarity = predictions.group_by("choice").agg(pl.col("similarity").mean())
    mean = dict(similarity.iter_rows())
    assert mean["nearest"] >= mean["nearest_per_label"] > mean["random"]
    samples = pl.read_parquet(cell / "samples.parquet").filter(demonstrations="nearest_per_label")
    assert {tuple(sorted(shown)) for shown in samples["demonstration_labels"]} == {(0, 1, 2, 3)}
    random = predictions.filter(choice="random").select("example", "prediction", "probabilities")
    assert random.equals(answers(results, seed=1).select(random.columns))
    summary = pl.read_parquet(results / "summaries/retrieval/tiny.parquet")
    assert set(summary["task"]) == {"reviews", "news", "average"}
    assert set(summary["choice"]) == set(choices)


def test_re_weighting_has_every_weight_step_and_prediction(results: Path) -> None:
    folder = results / "reweighting/tiny/news/0"
    beta = pl.read_parquet(folder / "beta.parquet")
    assert beta.shape[0] == LAYERS * HEADS * LABELS
    assert beta["beta"].abs().min() > 0  # every weight was fitted
    prompts = pl.read_parquet(folder / "prompts.parquet")
    order = prompts.filter(demonstrations="training")["demonstration_labels"][0]
    first = beta.filter(layer=0, head=0).sort("demonstration")
    assert first["label"].to_list() == order.to_list()
    descent = pl.read_parquet(folder / "descent.parquet")
    assert descent.filter(pl.col("fold").is_null()).shape[0] == 2 * 16
    rates = pl.read_parquet(folder / "learning_rates.parquet")
    assert rates["chosen"].to_list() == [True]
    predictions = pl.read_parquet(folder / "predictions.parquet")
    assert predictions.select("example", "method").is_unique().all()
    many = prompts.filter(demonstrations="many")
    assert predictions.shape[0] == 7 * EXAMPLES + many["skipped"].null_count()
    assert_as_likely(predictions.filter(method="vanilla"), answers(results))
