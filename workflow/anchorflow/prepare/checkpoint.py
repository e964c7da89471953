"""Where a model comes from, and its tensors, which are compared before any of them is read.

A model comes from the Hub at a pinned revision, a directory, or parts of a GGUF file.
"""

import contextlib
import hashlib
import json
import logging
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.utils import ADAPTER_CONFIG_NAME, SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME
from transformers.utils import logging as transformers_logging

from anchorflow.config.errors import InputError, disk_is_full, is_out_of_memory
from anchorflow.config.named_files import check_no_adapter, local_model, packaged
from anchorflow.model.layers import decoder_layers
from anchorflow.model.opening import check_complete, damage_reported

# Buffers of older files, which transformers now computes from the configuration.
_MASK = re.compile(r"(^|\.)(attn|attention)\.(bias|masked_bias)$")
_POSITIONS = re.compile(r"(^|\.)(position_ids|rotary_emb\.inv_freq)$")

# Entries of a configuration that describe how weights are quantized: by transformers, by older
# versions of compressed-tensors, and by MLX.
ENTRIES = ("quantization_config", "compression_config", "quantization")

_CONFIGURATION_FILES = ["*.json", "*.txt", "*.model", "*.jinja"]

# What to do first if a sentence says that a file has to change.
OF_HUB = " (for a model of the Hub, in a copy of that folder, named by its path)"


@contextlib.contextmanager
def model_directory(
    name: str, settings: Mapping[str, Any], weights: bool
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the directory to read from, and the ``gguf_file`` option if it holds a GGUF file.

    ``settings`` are the model's in the configuration. Without the weights, little is fetched from
    the Hub.
    """
    transformers_logging.disable_progress_bar()
    source = settings["source"]
    if source == "gguf":
        try:
            from anchorflow.prepare.gguf_files import quickly_read
        except ModuleNotFoundError as error:
            if error.name != "gguf":
                raise
            raise InputError(
                f"models.{name}: the package gguf, which reads its file, is not installed; run "
                "pip install 'anchorflow[workflow]'."
            ) from None
        with tempfile.TemporaryDirectory() as temporary, quickly_read():
            _join_parts(name, settings, Path(temporary) / "model.gguf")
            yield Path(temporary), {"gguf_file": "model.gguf"}
    elif source == "local":
        yield local_model(name, settings["path"]), {}
    else:
        patterns = [*_CONFIGURATION_FILES, *(["*.safetensors"] if weights else [])]
        directory = download(f"models.{name}", settings, patterns)
        check_no_adapter(name, directory, settings["repository"])
        yield directory, {}


def download(key: str, settings: Mapping[str, Any], patterns: list[str]) -> Path:
    """The folder with some files of a repository of the Hub at a commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    logging.getLogger("httpx").setLevel(logging.WARNING)  # else, a line for every request
    try:
        return Path(
            snapshot_download(
                settings["repository"], revision=settings["revision"], allow_patterns=patterns
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise InputError(
            f"{key}: could not fetch {settings['repository']} at revision "
            f"{settings['revision'][:12]} from the Hugging Face Hub ({type(error).__name__}); "
            "check the names, or work offline with a downloaded directory (path)."
        ) from None


def _join_parts(name: str, settings: Mapping[str, Any], path: Path) -> None:
    digest = hashlib.sha256()
    with open(path, "wb") as whole:
        for part in settings["files"]:
            source = packaged(f"models.{name}.files", part)
            if not source.is_file():
                raise InputError(
                    f"models.{name}.files: there is no file {source}; correct the path."
                )
            with open(source, "rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
                    whole.write(block)
    if digest.hexdigest() != settings.get("sha256", digest.hexdigest()):
        raise InputError(
            f"models.{name}.sha256: the GGUF file has the checksum {digest.hexdigest()}, not "
            f"{settings['sha256']}; reinstall the package or correct the checksum."
        )


@contextlib.contextmanager
def reading(name: str, directory: Path) -> Iterator[None]:
    """Report a damaged or incomplete model directory in one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # damaged files raise errors of many libraries
        if disk_is_full(error) or is_out_of_memory(error):
            raise
        if isinstance(error, ImportError):
            message = " ".join(str(error).split())
            raise InputError(
                f"models.{name}: it needs a library that is not installed: {message}"
            ) from None
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"models.{name}: {directory} can't be read as a transformers model ({reason}); "
            "replace it with a complete copy."
        ) from None


def without_origin(config: PretrainedConfig) -> PretrainedConfig:
    """The configuration without entries about its source's files: quantization and file names.

    Only weights under transformers' usual names are read.
    """
    for part in (config, config.get_text_config()):
        for entry in (*ENTRIES, "transformers_weights"):
            vars(part).pop(entry, None)
    return config


class Stored(NamedTuple):
    """A tensor as it is stored: its dtype as safetensors calls it, and its shape."""

    dtype: str
    shape: tuple[int, ...]


def is_derived(tensor: str, shape: tuple[int, ...]) -> bool:
    """Whether a tensor is a mask, position or frequency that follows from the configuration.

    Attention masks are [1, 1, T, T], and their value for masked scores is a single number; a
    trained bias has neither shape.
    """
    if _POSITIONS.search(tensor):
        return True
    square = len(shape) == 4 and shape[:2] == (1, 1) and shape[2] == shape[3]
    return bool(_MASK.search(tensor)) and (square or shape in ((), (1,)))


def stored_tensors(name: str, directory: Path) -> dict[str, Stored]:
    """All tensors in the files that transformers reads of a directory, from their headers.

    Adapters are refused: transformers adds them to the weights only where peft is installed.
    """
    if (directory / ADAPTER_CONFIG_NAME).is_file():
        raise InputError(
            f"models.{name}: {directory} has adapters ({ADAPTER_CONFIG_NAME}), which are not "
            "applied; merge them into the weights, or remove that file."
        )
    tensors: dict[str, Stored] = {}
    with damage_reported(name, directory):
        for file in weight_files(directory):
            with safe_open(directory / file, "pt") as stored:
                for tensor in stored.keys():  # noqa: SIM118 (it is no mapping)
                    if tensor in tensors:
                        raise InputError(
                            f"models.{name}: {directory} has the tensor {tensor} in several files; "
                            "replace it with a complete copy."
                        )
                    part = stored.get_slice(tensor)
                    tensors[tensor] = Stored(part.get_dtype(), tuple(part.get_shape()))
    return tensors


def weight_files(directory: Path) -> list[str]:
    """The file of all weights, or else those of an index, as transformers looks for them."""
    if (directory / SAFE_WEIGHTS_NAME).is_file():
        return [SAFE_WEIGHTS_NAME]
    index = json.loads((directory / SAFE_WEIGHTS_INDEX_NAME).read_text(encoding="utf-8"))
    files = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(files, dict) or not all(isinstance(file, str) for file in files.values()):
        raise ValueError(f"{SAFE_WEIGHTS_INDEX_NAME} does not say which files hold them")
    return sorted(set(files.values()))


def check_tensors(
    name: str, config: PretrainedConfig, tensors: Mapping[str, Stored], where: Path
) -> None:
    """Reject a checkpoint that has tensors which its model doesn't use, or lacks some.

    transformers places tensors of these names and shapes, without values, in the model, so that
    whatever it renames, joins or ties counts as used. Three kinds of tensors may remain unused:
    those that transformers lists for the architecture, those of :func:`is_derived`, and layers
    after the last one that predict further tokens, if the configuration counts them.
    """
    transformers_logging.disable_progress_bar()
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(config)
    shapes = {name: torch.empty(part.shape, device="meta") for name, part in tensors.items()}
    with damage_reported(name, where):
        model, found = type(skeleton).from_pretrained(
            None,
            config=skeleton.config,
            state_dict=shapes,
            dtype=torch.float32,
            device_map={"": "meta"},
            output_loading_info=True,
        )
    check_complete(name, found["missing_keys"], where)
    unused = {
        tensor
        for tensor in found["unexpected_keys"]
        if tensor not in tensors or not is_derived(tensor, tensors[tensor].shape)
    }
    check_used(name, model, unused, where)
    _check_once(name, model, tensors, where)


def check_tied(name: str, config: PretrainedConfig, directory: Path, origin: Path) -> None:
    """Check that a model that ties its head to its embedding stores no other head.

    transformers would leave it out. ``directory`` has the weights of ``origin``, dequantized.
    """
    if not config.get_text_config().tie_word_embeddings:
        return
    with torch.device("meta"):
        skeleton = AutoModelForCausalLM.from_config(config)
    places = {id(module): f"{place}.weight" for place, module in skeleton.named_modules()}
    wanted = [
        places.get(id(part))
        for part in (skeleton.get_input_embeddings(), skeleton.get_output_embeddings())
    ]
    found: dict[str | None, torch.Tensor] = {}
    for file in weight_files(directory):
        with safe_open(directory / file, "pt") as stored:
            names = {tensor: tensor for tensor in stored.keys()}  # noqa: SIM118 (no mapping)
            names |= {f"{skeleton.base_model_prefix}.{tensor}": tensor for tensor in names}
            found |= {key: stored.get_tensor(names[key]) for key in wanted if key in names}
    tensors = list(found.values())
    if len(tensors) == 2 and not torch.equal(*tensors):
        raise InputError(
            f"models.{name}: its config.json ties the head to the embedding (tie_word_embeddings), "
            f"but {origin} stores another head, {wanted[1]}; write "
            '"tie_word_embeddings": false into config.json to use it, or remove that tensor'
            f"{OF_HUB}."
        )


def check_used(name: str, model: PreTrainedModel, unused: Collection[str], where: Path) -> None:
    """Raise InputError if tensors are left out, except of layers that predict further tokens."""
    last = len(decoder_layers(model))
    further = getattr(model.config, "num_nextn_predict_layers", 0) or 0
    layers = {tensor: _layer_of(model, tensor) for tensor in unused}
    rest = sorted(t for t, layer in layers.items() if not last <= (layer or 0) < last + further)
    if not rest:
        return
    if (layers[rest[0]] or 0) >= last:
        raise InputError(
            f"models.{name}: {where} has weights of layers that its configuration does not count "
            f"({rest[0]}); correct num_hidden_layers in its config.json, or replace it with a "
            "complete copy."
        )
    raise InputError(
        f"models.{name}: {where} has the tensor {rest[0]}, which {type(model).__name__} does not "
        "use, so it may be quantized or of another architecture; name a checkpoint all of whose "
        "tensors are used."
    )


def _layer_of(model: PreTrainedModel, tensor: str) -> int | None:
    """The number of the decoder layer that a tensor's name belongs to, which may not exist."""
    places = {id(module): place for place, module in model.base_model.named_modules()}
    layers_path = re.escape(places[id(decoder_layers(model)[-1])].rpartition(".")[0])
    prefix = re.escape(model.base_model_prefix)
    numbered = re.match(rf"(?:{prefix}\.)?{layers_path}\.(\d+)\.", tensor)
    return int(numbered[1]) if numbered else None


def _check_once(name: str, model: PreTrainedModel, tensors: Collection[str], where: Path) -> None:
    """Raise InputError if a tensor is there with and without the prefix of the base model."""
    prefix = f"{model.base_model_prefix}."
    for tensor in sorted(tensors):
        if prefix + tensor in tensors:
            raise InputError(
                f"models.{name}: {where} has both {tensor} and {prefix + tensor}, which are the "
                "same weights; replace it with a complete copy."
            )


def check_gguf_tensors(name: str, model: PreTrainedModel, file: Path) -> None:
    """Reject a GGUF file that holds more than transformers has read of it.

    transformers passes over tensors that it does not know, such as the factors of rotary
    frequencies (rope_freqs) of Llama 3, which change all logits.
    """
    import gguf  # which the Python API does without

    reader = gguf.GGUFReader(str(file))
    stored = {tensor.name: int(tensor.n_elements) for tensor in reader.tensors}
    placed = {id(tensor): tensor.numel() for tensor in model.state_dict(keep_vars=True).values()}
    if sum(stored.values()) == sum(placed.values()):
        return
    architecture = reader.fields["general.architecture"].contents()
    known = {value: key for key, value in gguf.MODEL_ARCH_NAMES.items()}.get(architecture)
    unused = "a tensor"
    if known is not None:
        names = gguf.get_tensor_name_map(known, model.config.num_hidden_layers)
        read = {names.get_name(tensor, (".weight", ".bias")) for tensor in model.state_dict()}
        unused = min(stored.keys() - read, default=unused)
    raise InputError(
        f"models.{name}: its GGUF file has {unused}, which transformers does not read, and without "
        'which logits differ; name a safetensors checkpoint of the model ("source: local" or hub).'
    )
