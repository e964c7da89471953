"""Weights, resolved once from the Hub, a directory or a GGUF file."""

import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, FineGrainedFP8Config, PretrainedConfig
from transformers.utils import logging as transformers_logging

from anchorflow.config.errors import InputError
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.opening import MODEL_CARD, check_complete, damage_reported
from anchorflow.model.size import check_conversion
from anchorflow.model.tokenizer import read_architecture
from anchorflow.prepare.checkpoint import (
    DEQUANTIZED,
    Quantization,
    check_gguf_tensors,
    check_tensors,
    check_tied,
    check_unquantized,
    check_used,
    dequantized,
    model_directory,
    quantization_of,
    reading,
    stored_tensors,
    without_origin,
)
from anchorflow.store.cell import Cell
from anchorflow.store.checksums import fingerprints, sha256_of, write_json
from anchorflow.store.replacing import replacing

log = logging.getLogger(__name__)


def resolve_model(
    name: str, settings: Mapping[str, Any], tokenizer: str | Path, folder: str | Path
) -> None:
    """Prepare a model's weights, check them, and describe them in ``model.json``.

    GGUF and FP8 weights are dequantized into a safetensors file in ``folder``; other weights from
    the Hub stay in its cache and local ones where they are, and ``model.json`` points there. Before
    any are read, the names and shapes of all tensors are compared with the model's. The model is
    then opened and compared with itself under transformers' eager attention. ``model.json`` has the
    checksums of all files, so that a job that opens the model later can verify them.
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
        identity: dict[str, Any]
        if gguf:
            _convert_gguf(name, directory, gguf["gguf_file"], config, settings["dtype"], target)
            identity = {"sha256": sha256_of(directory / gguf["gguf_file"])}
        else:
            if not any(directory.glob("*.safetensors")):
                raise InputError(
                    f"models.{name}: {directory} has no safetensors weights, and pickled ones are "
                    "not read; convert them with transformers' save_pretrained."
                )
            identity = _weights_of(name, directory, config, settings["dtype"], target)
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
        write_json(target / MODEL_CARD, card)  # which the comparison reads to open the model
        card["difference_from_eager"] = check_against_eager(name, target)
        if "weights" in card and card["weights"] != fingerprints(directory.glob("*.safetensors*")):
            raise InputError(_changed(name, directory))
        write_json(target / MODEL_CARD, card)


def _weights_of(
    name: str, directory: Path, config: PretrainedConfig, dtype: str, target: Path
) -> dict[str, Any]:
    """Check a directory's weights and dequantize quantized ones; their entries of the card."""
    found = fingerprints(directory.glob("*.safetensors*"))
    with reading(name, directory):
        stored_config = AutoConfig.from_pretrained(directory, trust_remote_code=False)
    quantization, tensors = quantization_of(name, stored_config), stored_tensors(name, directory)
    check_tied(name, config, directory)
    if quantization is None:
        check_unquantized(name, tensors)
        check_tensors(name, config, tensors, directory)
        return {"directory": str(directory.resolve()), "weights": found}
    check_tensors(name, config, dequantized(name, quantization, tensors), directory)
    check_conversion(name, config, dtype)
    log.info("Dequantizing the weights in %s; this happens once.", directory)
    _dequantize(name, directory, quantization, config, dtype, target)
    if found != fingerprints(directory.glob("*.safetensors*")):
        raise InputError(_changed(name, directory))
    source = {"format": DEQUANTIZED, "directory": str(directory.resolve()), "weights": found}
    return {"dequantized": source}


def _dequantize(
    name: str,
    directory: Path,
    quantization: Quantization,
    config: PretrainedConfig,
    dtype: str,
    target: Path,
) -> None:
    quantized = copy.deepcopy(config)
    quantized.quantization_config = {
        "quant_method": DEQUANTIZED,
        "weight_block_size": quantization.block,
    }
    with damage_reported(name, directory):
        model, found = AutoModelForCausalLM.from_pretrained(
            directory,
            config=quantized,
            quantization_config=FineGrainedFP8Config(dequantize=True),
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    check_complete(name, found["missing_keys"], directory)
    without_origin(model.config)
    # In their original format, they would be quantized again.
    model.save_pretrained(target, save_original_format=False)


def _convert_gguf(
    name: str, directory: Path, file: str, config: PretrainedConfig, dtype: str, target: Path
) -> None:
    log.info("Dequantizing %s; this takes up to a minute and happens once.", file)
    # Silences the recommendation of float32 for weights that stay packed, which these do not.
    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    model, found = AutoModelForCausalLM.from_pretrained(
        directory,
        gguf_file=file,
        config=config,
        dtype=getattr(torch, dtype),
        trust_remote_code=False,
        output_loading_info=True,
    )
    transformers_logging.set_verbosity(verbosity)
    where = Path("its GGUF file")
    check_complete(name, found["missing_keys"], where)
    check_used(name, model, found["unexpected_keys"], where)
    check_gguf_tensors(name, model, directory / file)
    model.hf_quantizer = None  # the weights are no longer quantized
    without_origin(model.config)
    model.save_pretrained(target)


def _changed(name: str, directory: Path) -> str:
    return (
        f"models.{name}: the weights in {directory} changed while they were checked; run again "
        "with the new ones."
    )


def prepare(job: Cell) -> None:
    """Prepare one model's weights and check our attention against eager attention."""
    torch.set_num_threads(job.threads)
    resolve_model(job.wildcards.model, job.spec, job.input.tokenizer, job.output[0])
