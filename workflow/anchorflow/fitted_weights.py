"""Fitted weights β as a file, together with what they were fitted for."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.store.replacing import replacing


@dataclass(frozen=True)
class Purpose:
    """What weights were fitted for; they are meaningless elsewhere."""

    model: str  # fingerprint
    template: str
    labels: tuple[str, ...]  # label words
    demonstrations: tuple[tuple[str, int], ...]  # text and label, in prompt order
    instruction: str = ""
    separator: str = "\n"


@dataclass(frozen=True, eq=False)
class FittedWeights:
    """β of every layer, query head, and demonstration, and what it was fitted for."""

    beta: Tensor  # [L, H, N], float32
    purpose: Purpose
    learning_rate: float
    epochs: int
    batch_size: int
    source: str = "these weights"  # the file, in error messages
    whole_words: bool = True  # False: β of the first token of each label word, as in 0.1.0

    def save(self, path: str | Path) -> None:
        """Write β as a safetensors file, with everything else in its metadata."""
        about = asdict(self)
        tensors = {"beta": about.pop("beta").contiguous()}
        del about["source"]
        with replacing(path) as temporary:
            written = json.dumps(about)
            checksum = _checksum(tensors["beta"], written)
            save_file(tensors, temporary, metadata={"weights": written, "checksum": checksum})

    @classmethod
    def load(cls, path: str | Path) -> "FittedWeights":
        """Read what ``save`` wrote; raises InputError if the file is anything else."""
        try:
            with safe_open(path, framework="pt") as file:
                metadata = file.metadata()
                beta = file.get_tensor("beta")
            if metadata["checksum"] != _checksum(beta, metadata["weights"]):
                raise ValueError("another checksum")
            about = json.loads(metadata["weights"])
            about.setdefault("whole_words", False)
            purpose = about.pop("purpose")
            purpose["labels"] = tuple(purpose["labels"])
            purpose["demonstrations"] = tuple((t, n) for t, n in purpose["demonstrations"])
            return cls(beta=beta, purpose=Purpose(**purpose), **about, source=str(path))
        except (OSError, SafetensorError, KeyError, TypeError, ValueError):
            raise InputError(
                f"{path}: missing, damaged, or not a file of fitted weights β; fit and save again."
            ) from None

    def check(self, purpose: Purpose, shape: tuple[int, int, int]) -> None:
        """Raise InputError unless β has this shape, and was fitted for this purpose."""
        if self.purpose.model != purpose.model or tuple(self.beta.shape) != shape:
            raise InputError(
                f"{self.source}: fitted for another model; fit weights anew for this one."
            )
        for what in ("template", "labels", "demonstrations", "instruction", "separator"):
            fitted, asked = getattr(self.purpose, what), getattr(purpose, what)
            if fitted != asked:
                raise InputError(
                    f"{self.source}: fitted for the {what} {fitted!r}, not for {asked!r}; restore "
                    "them in this order, or fit weights anew."
                )

    def check_words(self, tokens: int) -> None:
        """Raise InputError unless the weights apply to label words of up to ``tokens`` tokens."""
        if tokens > 1 and not self.whole_words:
            raise InputError(
                f"{self.source}: fitted by version 0.1.0, which weighted only the first token of "
                "each label word, and some of these have several; fit weights anew."
            )


def _checksum(beta: Tensor, about: str) -> str:
    return hashlib.sha256(beta.numpy().tobytes() + about.encode()).hexdigest()


def fingerprint(model: PreTrainedModel) -> str:
    """A digest of the first weights of every parameter, equal in float32 and bfloat16."""
    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        some = parameter.detach().flatten()[:16].to("cpu", torch.bfloat16).float()
        digest.update(f"{name} {tuple(parameter.shape)}".encode())
        digest.update(some.numpy().tobytes())
    return digest.hexdigest()
