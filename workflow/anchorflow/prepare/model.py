"""Weights, resolved once from the Hub, a directory or a GGUF file."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig

from anchorflow.config.errors import InputError
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.language_model import MODEL_CARD
from anchorflow.model.memory import check_conversion
from anchorflow.model.tokenizer import read_architecture
from anchorflow.prepare.model_sources import model_directory, without_origin
from anchorflow.store.checksums import fingerprints, write_json
from anchorflow.store.replacing import replacing

log = logging.getLogger(__name__)


def resolve_model(
    name: str, settings: Mapping[str, Any], tokenizer: str | Path, folder: str | Path
) -> None:
    """Prepare a model's weights, check them, and describe them in ``model.json``.

    GGUF weights are dequantized into a safetensors file in ``folder``; weights from the Hub stay
    in its cache and local ones where they are, and ``model.json`` points there. The model is then
    opened and its logits compared with those of transformers' eager attention. ``model.json`` has
    the checksums of all files, so that a job that opens the model later can verify them.

    Raises
    ------
    InputError
        If the source is not available or not in safetensors format, fails its checksum, does not
        fit into memory, or does not give the same logits with our attention function.
    """
    config = AutoConfig.from_pretrained(tokenizer, trust_remote_code=False)
    # Weights that keep their dtype are memory-mapped from their files, whatever their size.
    if settings["source"] == "gguf" or config.dtype != getattr(torch, settings["dtype"]):
        check_conversion(name, config, settings["dtype"])
    with (
        model_directory(name, settings, weights=True) as (directory, gguf),
        replacing(folder) as target,
    ):
        target.mkdir()
        without_origin(config).save_pretrained(target)
        if gguf:
            _convert_gguf(directory, gguf["gguf_file"], config, settings["dtype"], target)
            identity: dict[str, Any] = {"sha256": settings["sha256"]}
        else:
            if not any(directory.glob("*.safetensors")):
                raise InputError(
                    f"models.{name}: {directory} has no safetensors weights, and pickled ones are "
                    "not read; convert them with transformers' save_pretrained."
                )
            identity = {
                "directory": str(directory.resolve()),
                "weights": fingerprints(directory.glob("*.safetensors*")),
            }
            if settings["source"] == "hub":
                identity |= {"repository": settings["repository"], "revision": settings["revision"]}
        card = {
            "name": name,
            "source": settings["source"],
            **identity,
            "files": fingerprints(path for path in target.iterdir() if path.name != MODEL_CARD),
            "dtype": settings["dtype"],
            **read_architecture(tokenizer),
        }
        write_json(target / MODEL_CARD, card)
        card["difference_from_eager"] = check_against_eager(name, target)
        if "weights" in card and card["weights"] != fingerprints(directory.glob("*.safetensors*")):
            raise InputError(
                f"models.{name}: the weights in {directory} changed while they were checked; run "
                "again with the new ones."
            )
        write_json(target / MODEL_CARD, card)


def _convert_gguf(
    directory: Path, file: str, config: PretrainedConfig, dtype: str, target: Path
) -> None:
    log.info("Dequantizing %s; this takes up to a minute and happens once.", file)
    model = AutoModelForCausalLM.from_pretrained(
        directory,
        gguf_file=file,
        config=config,
        dtype=getattr(torch, dtype),
        trust_remote_code=False,
    )
    model.hf_quantizer = None  # the weights are no longer quantized
    without_origin(model.config)
    model.save_pretrained(target)
