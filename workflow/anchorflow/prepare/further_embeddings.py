"""Embeddings of one task's texts by further sentence encoders, compared with the first."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import torch

from anchorflow.prepare.embeddings import (
    device_of_job,
    embed_texts,
    encoder_directory,
    encoder_identity,
    open_encoder,
)
from anchorflow.schemas.embeddings import FURTHER_EMBEDDINGS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.cell import Cell


def embed_with_further(
    texts: pl.DataFrame, paths: Mapping[str, str], device: torch.device
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Embed every text of one task with each encoder, one after the other.

    ``paths`` are those under ``encoder.further``, by name. Also returns what identifies each
    encoder.
    """
    parts = [pl.DataFrame(schema=frame_schema(FURTHER_EMBEDDINGS))]
    identities = {}
    for name, path in paths.items():
        key = f"encoder.further.{name}.path"
        folder = encoder_directory(path, key)
        embedded = embed_texts(texts, open_encoder(folder, device, key), key)
        parts.append(embedded.select(pl.lit(name).alias("encoder"), pl.all()))
        identities[name] = encoder_identity(path, folder)
    return pl.concat(parts), identities


def prepare(job: Cell) -> None:
    """Embed the texts of one task with further sentence encoders."""
    texts = job.read("texts", TEXTS)
    embedded, encoders = embed_with_further(texts, job.spec["paths"], device_of_job(job))
    job.write(FURTHER_EMBEDDINGS, embedded, {"encoders": encoders})
