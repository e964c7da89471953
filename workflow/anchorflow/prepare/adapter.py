"""LoRA adapters in peft's format, merged into the weights of the model that they were trained on.

Of a linear layer's weight W, [out, in], the merged one is W + s·B·A, with A [r, in] and B [out, r].
The scale s is lora_alpha / r (arXiv:2106.09685, section 4.1), or lora_alpha / √r with use_rslora
(arXiv:2312.03732). Other tensors of the file take the place of the model's.
"""

import json
import logging
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D
from transformers.utils import ADAPTER_CONFIG_NAME

from anchorflow.config.errors import InputError
from anchorflow.config.named_files import local_adapter
from anchorflow.model.opening import damage_reported
from anchorflow.prepare.checkpoint import download
from anchorflow.store.checksums import fingerprints

log = logging.getLogger(__name__)

WEIGHTS = "adapter_model.safetensors"
_REMEDY = (
    "merge it in Python with peft's merge_and_unload, and name the folder of the merged model, "
    "with its tokenizer"
)
_PREFIX = "base_model.model."
# Keys that are followed here, and keys that say how an adapter was trained, by whom, or which
# tensors the file then has. Any other key that is set changes what the tensors mean.
_FOLLOWED = ("peft_type", "r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern")
_NEUTRAL = (
    *("task_type", "auto_mapping", "peft_version", "base_model_name_or_path", "revision"),
    *("inference_mode", "target_modules", "exclude_modules", "lora_dropout", "fan_in_fan_out"),
    *("bias", "lora_bias", "modules_to_save", "init_lora_weights", "layers_to_transform"),
    *("layers_pattern", "megatron_core", "qalora_group_size"),
)
# Ways to draw A and B before training; others also change the weights that the adapter is added to.
_DRAWN = (None, True, False, "gaussian", "orthogonal")


def adapter_directory(name: str, adapter: Mapping[str, Any], weights: bool) -> Path:
    """The folder of a model's adapter; without its weights, little is fetched from the Hub."""
    key = f"models.{name}.adapter"
    if adapter["source"] == "local":
        return local_adapter(key, adapter["path"])
    directory = download(key, adapter, [ADAPTER_CONFIG_NAME, *([WEIGHTS] if weights else [])])
    return local_adapter(key, str(directory))


def read_adapter(name: str, settings: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """An adapter's configuration; raises InputError unless it is plain LoRA for this model.

    ``settings`` are the model's in the configuration.
    """
    path, key = directory / ADAPTER_CONFIG_NAME, f"models.{name}.adapter"
    with damage_reported(name, directory):
        described: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(described, dict):
            raise ValueError(f"{ADAPTER_CONFIG_NAME} is no mapping")
    kind, drawn = described.get("peft_type"), described.get("init_lora_weights")
    if kind != "LORA":
        raise InputError(
            f"{key}: {path} describes an adapter of the kind {kind}, and only LORA is merged; "
            f"{_REMEDY}."
        )
    others = {k: v for k, v in described.items() if v and k not in (*_FOLLOWED, *_NEUTRAL)}
    if drawn not in _DRAWN:
        others["init_lora_weights"] = drawn
    if others:
        first = min(others)
        raise InputError(
            f"{key}: {first} in {path} is {json.dumps(others[first])}, and only plain LoRA is "
            f"merged; {_REMEDY}."
        )
    for number in ("r", "lora_alpha"):
        if not _is_positive(described.get(number)):
            raise InputError(f"{key}: {number} in {path} is no positive number; correct it.")
    for which in ("rank_pattern", "alpha_pattern"):
        patterns = described.get(which) or {}
        if not isinstance(patterns, dict) or not all(_is_positive(v) for v in patterns.values()):
            raise InputError(
                f"{key}: {which} in {path} does not give a positive number for every pattern; "
                "correct it."
            )
        for pattern in patterns:
            try:
                re.compile(pattern)
            except re.error:
                raise InputError(
                    f"{key}: {pattern!r} in {path} is no regular expression; correct it."
                ) from None
    _check_base(key, described.get("base_model_name_or_path"), settings, path)
    return described


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _check_base(key: str, base: Any, settings: Mapping[str, Any], path: Path) -> None:
    """Refuse another model of the Hub than the adapter's; of folders, warn if names differ."""
    if not isinstance(base, str) or not base:
        return
    of_hub = settings["source"] == "hub" and re.fullmatch(r"[\w.-]+/[\w.-]+", base)
    configured = settings.get("repository") or settings.get("path") or settings["files"][0]
    if of_hub and base.lower() != configured.lower():
        raise InputError(
            f"{key}: it was trained on {base}, says {path}, and the model is {configured}; name "
            f"that model, or, if both have the same weights, write {configured} into "
            "base_model_name_or_path in a copy of the adapter's folder."
        )
    if Path(base).name.lower() != Path(configured).name.lower():
        log.warning("%s: it was trained on %s; the model is %s.", key, base, configured)


def merge(
    name: str, settings: Mapping[str, Any], directory: Path, model: PreTrainedModel
) -> dict[str, Any]:
    """Merge an adapter into a model in place, in the model's dtype; what it was, for model.json.

    Sums are in float32. Every tensor of the file has to have its place in the model, and every
    layer that the adapter lists its tensors.
    """
    key = f"models.{name}.adapter"
    described = read_adapter(name, settings, directory)
    if not (directory / WEIGHTS).is_file():
        raise InputError(f"{key}: {directory} has no {WEIGHTS}, and pickled weights are not read.")
    before = fingerprints(directory / file for file in (ADAPTER_CONFIG_NAME, WEIGHTS))
    with damage_reported(name, directory):
        tensors = load_file(directory / WEIGHTS)
    modules, parameters = dict(model.named_modules()), dict(model.named_parameters())
    tied = {id(weight) for weight in _tied(model)}
    whole: dict[str, Tensor] = {}  # by the parameter's name
    factors: dict[str, dict[str, Tensor]] = {}  # by the layer's name
    for tensor, values in tensors.items():
        place = tensor.removeprefix(_PREFIX).replace(".base_layer.", ".")
        layer, _, factor = place.partition(".lora_")
        if not tensor.startswith(_PREFIX) or (layer if factor else place) not in (
            modules if factor else parameters
        ):
            raise InputError(
                f"{key}: {directory / WEIGHTS} has the tensor {tensor}, for which the model has no "
                "place; it was trained on another model, or in a way that is not merged."
            )
        if factor:
            factors.setdefault(layer, {})[factor] = values
        else:
            whole[place] = values
    _check_complete(key, described, modules, factors.keys(), whole.keys())
    with torch.no_grad():
        for place, values in whole.items():
            _assign(key, place, parameters[place], values, tied)
        for layer, parts in factors.items():
            _add(key, described, layer, modules[layer], parts, tied)
    adapter = settings["adapter"]
    kept = {k: adapter[k] for k in ("repository", "revision") if k in adapter}
    return {**(kept or {"directory": str(directory.resolve())}), "files": before}


def _tied(model: PreTrainedModel) -> list[Tensor]:
    """The embedding's weights if the head has the same."""
    ends = [model.get_input_embeddings(), model.get_output_embeddings()]
    weights = [end.weight for end in ends if end is not None]
    return weights if len({id(weight) for weight in weights}) == 1 else []


def _check_complete(
    key: str, described: Mapping[str, Any], modules: Any, layers: Any, whole: Any
) -> None:
    """Refuse an adapter that lists layers of which it has no tensors; peft would draw them."""

    def listed(place: str, names: Any) -> bool:
        return any(place == name or place.endswith(f".{name}") for name in names)

    names, some = described.get("target_modules"), ("layers_to_transform", "exclude_modules")
    lacking = []
    if isinstance(names, list) and not any(described.get(k) is not None for k in some):
        lacking = [place for place in modules if listed(place, names) and place not in layers]
    for kept in described.get("modules_to_save") or ():
        if not any(listed(place.rpartition(".")[0], [kept]) for place in whole):
            lacking.append(kept)
    if lacking or not layers:
        raise InputError(
            f"{key}: its {WEIGHTS} lacks the tensors of {lacking[0] if lacking else 'any layer'}; "
            "replace it with a complete copy."
        )


def _assign(key: str, place: str, weight: Tensor, values: Tensor, tied: set[int]) -> None:
    if weight.shape != values.shape:
        raise InputError(
            f"{key}: its {place} is {list(values.shape)} and the model's {list(weight.shape)}, so "
            f"it was trained on another model, or with more tokens; if the latter, {_REMEDY}."
        )
    if not weight.equal(values.to(weight.dtype)):
        _check_untied(key, place, weight, tied)
        weight.copy_(values)


def _check_untied(key: str, place: str, weight: Tensor, tied: set[int]) -> None:
    if id(weight) in tied:
        raise InputError(
            f"{key}: it changes {place}, which the model has as embedding and as head "
            "(tie_word_embeddings), so merging would change both; merge it with peft into a model "
            "that has two, and name its folder."
        )


def _add(
    key: str,
    described: Mapping[str, Any],
    layer: str,
    module: Any,
    parts: Mapping[str, Tensor],
    tied: set[int],
) -> None:
    """Add s·B·A to one layer's weight, and s·b to its bias."""
    allowed = {"A.weight", "B.weight", *(["B.bias"] if described.get("lora_bias") else [])}
    if set(parts) != allowed or not isinstance(module, torch.nn.Linear | Conv1D):
        raise InputError(
            f"{key}: it has {', '.join(f'lora_{part}' for part in sorted(parts))} for {layer}, a "
            f"{type(module).__name__}, and only lora_A and lora_B of linear layers are merged; "
            f"{_REMEDY}."
        )
    down, up = parts["A.weight"].float(), parts["B.weight"].float()
    rank = _by_pattern(described, "rank_pattern", layer, described["r"])
    if len(down) != rank:
        raise InputError(
            f"{key}: lora_A of {layer} has rank {len(down)}, and {ADAPTER_CONFIG_NAME} says "
            f"{rank}; replace it with a complete copy."
        )
    alpha = _by_pattern(described, "alpha_pattern", layer, described["lora_alpha"])
    scale = alpha / (math.sqrt(rank) if described.get("use_rslora") else rank)
    weight = module.weight.T if isinstance(module, Conv1D) else module.weight
    if weight.shape != (len(up), down.shape[1]) or up.shape[1] != rank:
        raise InputError(
            f"{key}: lora_B and lora_A of {layer} are {list(up.shape)} and {list(down.shape)}, and "
            f"its weight is {list(weight.shape)}; it was trained on another model."
        )
    _check_untied(key, f"{layer}.weight", module.weight, tied)
    weight.copy_(weight.float() + (up @ down) * scale)
    if "B.bias" in parts:
        if module.bias is None:
            raise InputError(f"{key}: it has a bias for {layer}, which has none in the model.")
        module.bias.copy_(module.bias.float() + parts["B.bias"].float() * scale)


def _by_pattern(described: Mapping[str, Any], key: str, layer: str, otherwise: Any) -> Any:
    """What a pattern says of a layer, as peft looks for it; regular expressions are endings."""
    for pattern, value in (described.get(key) or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", layer):
            return value
    return otherwise
