"""Weights, resolved once from the Hub, a directory or a GGUF file."""

import copy
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from anchorflow.config.errors import InputError
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.opening import MODEL_CARD, check_complete, damage_reported
from anchorflow.model.size import check_conversion
from anchorflow.model.tokenizer import read_architecture
from anchorflow.prepare.adapter import adapter_directory, merge
from anchorflow.prepare.checkpoint import (
    check_gguf_tensors,
    check_tensors,
    check_tied,
    check_used,
    model_directory,
    reading,
    stored_tensors,
    without_origin,
)
from anchorflow.prepare.quantized_weights import check_unquantized, dequantize, quantization_of
from anchorflow.store.cell import Cell
from anchorflow.store.checksums import fingerprints, sha256_of, write_json
from anchorflow.store.replacing import replacing

log = logging.getLogger(__name__)


def resolve_model(
    name: str, settings: Mapping[str, Any], tokenizer: str | Path, folder: str | Path
) -> None:
    """Prepare a model's weights, check them, and describe them in ``model.json``.

    Quantized weights are dequantized into safetensors files in ``folder``; other weights from
    the Hub stay in its cache and local ones where they are, and ``model.json`` points there. An
    adapter is merged into the weights, which are then in ``folder`` too. The names and shapes of
    all tensors are compared with the model's, before any are read or, of quantized ones, once they
    are dequantized. The model is then opened and compared with itself under transformers' eager
    attention. ``model.json`` has the checksums of all files, so that a job that opens the model
    later can verify them.
    """
    config = AutoConfig.from_pretrained(tokenizer, trust_remote_code=False)
    adapter, dtype = settings.get("adapter"), settings["dtype"]
    # Weights that keep their dtype are memory-mapped from their files, whatever their size.
    if settings["source"] == "gguf" or adapter or config.dtype != getattr(torch, dtype):
        check_conversion(name, config, dtype)
    with (
        model_directory(name, settings, weights=True) as (directory, gguf),
        replacing(folder) as target,
    ):
        target.mkdir()
        without_origin(config).save_pretrained(target)
        converted = target / "base" if adapter else target
        found = fingerprints(directory.glob("*.safetensors*"))
        identity: dict[str, Any]
        if gguf:
            _convert_gguf(name, directory, gguf["gguf_file"], config, dtype, converted)
            identity = {"sha256": sha256_of(directory / gguf["gguf_file"])}
        else:
            if not any(directory.glob("*.safetensors")):
                raise InputError(
                    f"models.{name}: {directory} has no safetensors weights, and pickled ones are "
                    "not read; convert them with transformers' save_pretrained."
                )
            identity = _weights_of(name, directory, config, dtype, converted, found)
            if settings["source"] == "hub":
                identity |= {"repository": settings["repository"], "revision": settings["revision"]}
        if adapter:
            base = Path(identity.get("directory", converted))
            about = _merge(name, settings, base, config, target)
            keys = ("directory", "weights")  # of weights that are read where they are
            of_base = {key: identity.pop(key) for key in keys if key in identity}
            identity |= {**({"base": of_base} if of_base else {}), "adapter": about}
        card = {
            "name": name,
            "source": settings["source"],
            **identity,
            "files": fingerprints(path for path in target.iterdir() if path.name != MODEL_CARD),
            "dtype": dtype,
            **read_architecture(tokenizer),
        }
        write_json(target / MODEL_CARD, card)  # which the comparison reads to open the model
        card["difference_from_eager"] = check_against_eager(name, target)
        if found != fingerprints(directory.glob("*.safetensors*")):
            raise InputError(
                f"models.{name}: the weights in {directory} changed while they were checked; run "
                "again with the new ones."
            )
        write_json(target / MODEL_CARD, card)


def _weights_of(
    name: str,
    directory: Path,
    config: PretrainedConfig,
    dtype: str,
    target: Path,
    found: Mapping[str, Any],
) -> dict[str, Any]:
    """Check a directory's weights and dequantize quantized ones; their entries of the card."""
    with reading(name, directory):
        stored_config = AutoConfig.from_pretrained(directory, trust_remote_code=False)
    quantization, tensors = quantization_of(name, stored_config), stored_tensors(name, directory)
    if quantization is None:
        check_tied(name, config, directory, directory)
        check_unquantized(name, tensors)
        check_tensors(name, config, tensors, directory)
        return {"directory": str(directory.resolve()), "weights": found}
    check_conversion(name, config, dtype)
    log.info("Dequantizing the weights in %s; this happens once.", directory)
    dequantize(name, quantization, directory, getattr(torch, dtype), target)
    check_tied(name, config, target, directory)
    check_tensors(name, config, stored_tensors(name, target), directory)
    source = {"format": quantization.method, "directory": str(directory.resolve())}
    return {"dequantized": {**source, "weights": found}}


def _merge(
    name: str, settings: Mapping[str, Any], base: Path, config: PretrainedConfig, target: Path
) -> dict[str, Any]:
    """Write the weights in ``base`` with the adapter merged into them; the adapter's entry."""
    log.info("Merging the adapter into the weights; this happens once.")
    if base.parent == target:
        config.save_pretrained(base)  # without which transformers reads no folder
    model = _loaded(name, base, copy.deepcopy(config), settings["dtype"])
    about = merge(name, settings, adapter_directory(name, settings["adapter"], True), model)
    model.save_pretrained(target, save_original_format=False)
    if base.parent == target:
        shutil.rmtree(base)
    return about


def _loaded(name: str, directory: Path, config: PretrainedConfig, dtype: str) -> PreTrainedModel:
    """All weights of a directory, in memory."""
    with damage_reported(name, directory):
        model, found = AutoModelForCausalLM.from_pretrained(
            directory,
            config=config,
            dtype=getattr(torch, dtype),
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    check_complete(name, found["missing_keys"], directory)
    opened: PreTrainedModel = model
    return opened


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


def prepare(job: Cell) -> None:
    """Prepare one model's weights and check our attention against eager attention."""
    torch.set_num_threads(job.threads)
    resolve_model(job.wildcards.model, job.spec, job.input.tokenizer, job.output[0])
