"""A model and its tokenizer, resolved as the workflow does it."""

import shutil
from pathlib import Path

import torch

from anchorflow.model.opening import read_card
from anchorflow.prepare.model import resolve_model
from anchorflow.prepare.tokenizer import resolve_tokenizer
from anchorflow.store.checksums import write_json


def resolve(folder: Path, dtype: str = "float32") -> None:
    """Resolve the model in the folder's ``source`` into its ``tokenizer`` and ``model``."""
    settings = {"source": "local", "path": str(folder / "source"), "dtype": dtype}
    resolve_tokenizer("tiny", settings, folder / "tokenizer")
    resolve_model("tiny", settings, folder / "tokenizer", folder / "model")


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
