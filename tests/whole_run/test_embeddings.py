"""Embeddings in a finished run."""

import hashlib
from pathlib import Path

import polars as pl
import pytest

from anchorflow.prepare.embeddings import encoder_identity
from anchorflow.store.parquet import read_settings
from checkout import Checkout


def test_an_artifact_holds_every_text_and_tells_its_encoder(
    finished_run: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finished_run.folder / "results"
    embeddings = pl.read_parquet(folder / "embeddings/news.parquet")
    texts = pl.read_parquet(folder / "texts/news.parquet")
    assert embeddings.select("task", "split", "row").equals(texts.select("task", "split", "row"))
    monkeypatch.chdir(finished_run.folder)
    path = finished_run.config["encoder"]["path"]
    weights = (Path(path) / "model.safetensors").read_bytes()
    told = {"path": path, "sha256": {"model.safetensors": hashlib.sha256(weights).hexdigest()}}
    assert encoder_identity(path, Path(path)) == told
    assert read_settings(folder / "embeddings/news.parquet") == {"encoder": told}
