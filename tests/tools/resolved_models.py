"""A model and its tokenizer, resolved as the workflow does it."""

import shutil
from pathlib import Path

import torch
from transformers import PreTrainedModel

from anchorflow.model.opening import read_card
from anchorflow.prepare.model import resolve_model
from anchorflow.prepare.tokenizer import resolve_tokenizer
from anchorflow.store.checksums import fingerprints, write_json


def resolve(folder: Path, dtype: str = "float32") -> None:
    """Resolve the model in the folder's ``source`` into its ``tokenizer`` and ``model``."""
    settings = {"source": "local", "path": str(folder / "source"), "dtype": dtype}
    resolve_tokenizer("tiny", settings, folder / "tokenizer")
    resolve_model("tiny", settings, folder / "tokenizer", folder / "model")


def saved(folder: Path, model: PreTrainedModel, dtype: str) -> Path:
    """Save a model of this dtype with its card, as if resolved."""
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    card = {"name": "tiny", "dtype": dtype, "architecture": model.config.model_type}
    card["files"] = fingerprints(folder.glob("*.safetensors"))
    write_json(folder / "model.json", card)
    return folder


def with_own_weights(folder: Path) -> Path:
    """Move the weights into ``model``, where those of a converted model lie."""
    shutil.move(folder / "source" / "model.safetensors", folder / "model")
    card = read_card(folder / "model")
    card["files"] |= card.pop("weights")
    del card["directory"]
    write_json(folder / "model" / "model.json", card)
    return folder


def not_finite(tensors: dict[str, torch.Tensor]) -> None:
    """Spoil weights so that no logit is finite."""
    tensors["model.norm.weight"][0] = torch.nan
