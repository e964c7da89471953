"""Opens a causal language model for measurement: frozen, deterministic, with our attention."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import adopt
from anchorflow.model.devices import choose_device
from anchorflow.model.layers import recompute_activations
from anchorflow.model.size import CostOf, Prompts, Size, check_job, cost_in, log_job, once
from anchorflow.store.checksums import changed_file, read_json

MODEL_CARD = "model.json"

# Parts of transformers' messages about weights that do not fit, and the reason to report.
_NOT_FITTING = {
    "ignore_mismatched_sizes": "their sizes differ from those in its configuration",
    "automatic conversion of the weights": (
        "transformers can't convert them as its configuration requires; sizes or tensors may differ"
    ),
}


def read_card(folder: str | Path) -> dict[str, Any]:
    """The description of a resolved model: architecture, layers, heads, context, identity."""
    return read_json(
        Path(folder) / MODEL_CARD, remedy=f"delete {folder} and run again to rebuild it"
    )


def open_for_job(
    folder: str | Path,
    compute: Mapping[str, Any],
    threads: int,
    prompts: pl.DataFrame,
    cost: CostOf = once,
    spec: Mapping[str, Any] = MappingProxyType({}),
    scoring: Mapping[str, Any] = MappingProxyType({}),
) -> PreTrainedModel:
    """Open a resolved model according to ``compute`` in the configuration, if it fits into memory.

    ``cost`` counts the tokens that will be run, to estimate memory and time.
    """
    torch.set_num_threads(threads)
    device, card = choose_device(compute["device"]), read_card(folder)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    dtype = getattr(torch, card["dtype"])
    size = Size.of(config, dtype)
    costs = cost_in(size, cost, Prompts.of(prompts, scoring), spec)
    check_job(card, size, config.dtype, device, compute, prompts, costs)
    log_job(costs, size, dtype, device)
    model = open_model(folder, device, spread=compute["device"] == "spread")
    if compute["recompute"]:
        recompute_activations(model)
    return model


def open_model(
    folder: str | Path, device: torch.device, spread: bool = False, eager: bool = False
) -> PreTrainedModel:
    """Open a resolved model in its configured dtype, frozen and in evaluation mode.

    ``spread`` puts the layers on all GPUs instead of one device. ``eager`` keeps transformers'
    eager attention, as a reference for ours. It is an error if the weights have changed since they
    were resolved.
    """
    transformers_logging.disable_progress_bar()
    card = read_card(folder)
    weights = _unchanged(folder, card)
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with damage_reported(card["name"], weights):
        model, found = AutoModelForCausalLM.from_pretrained(
            weights,
            config=config,
            dtype=getattr(torch, card["dtype"]),
            attn_implementation="eager",  # every architecture has it; adopt() replaces it
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            device_map="auto" if spread else None,
            output_loading_info=True,
        )
    check_complete(card["name"], found["missing_keys"], weights)
    if not spread:
        model.to(device)
    elif any(parameter.is_meta for parameter in model.parameters()):
        raise InputError(
            f"models.{card['name']}: the GPUs together are too small for it in {card['dtype']}; "
            'use more or larger ones, a smaller dtype, or "device: cpu".'
        )
    model.requires_grad_(False).eval()
    if not eager:
        adopt(model)
    return model


def check_complete(name: str, missing: Collection[str], where: Path) -> None:
    """Raise InputError if weights are missing, which transformers would draw at random."""
    if missing:
        raise InputError(
            f"models.{name}: {where} lacks the weights {min(missing)}, which would be random; "
            "replace it with a complete copy."
        )


def _unchanged(folder: str | Path, card: Mapping[str, Any]) -> Path:
    """The folder of the weights; raises InputError if a file has changed since it was resolved."""
    weights = Path(card.get("directory", folder))
    since = Path(folder) / MODEL_CARD
    changed = changed_file(Path(folder), card["files"], since)
    if changed:
        raise InputError(
            f"{changed}: missing or damaged; delete {folder} and run again to rebuild it."
        )
    replaced = changed_file(weights, card.get("weights", {}), since)
    if replaced:
        raise InputError(
            f"models.{card['name']}: {replaced} is missing or not what it was when the model was "
            f"resolved; put it back, or delete {folder} and run again with the new weights."
        )
    return weights


@contextlib.contextmanager
def damage_reported(name: str, weights: Path) -> Iterator[None]:
    """Report weights that can't be read in one sentence."""
    try:
        yield
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if isinstance(error, RuntimeError):
            known = [cause for words, cause in _NOT_FITTING.items() if words in reason]
            if not known:
                raise
            reason = known[0]
        raise InputError(
            f"models.{name}: the weights in {weights} can't be read ({reason}); replace them with "
            "a complete copy."
        ) from None
