"""Prompts as right-padded batches under a token budget."""

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Prompts of one task side by side, padded on the right to the longest.

    With a shared prefix, ``input_ids`` are what follows it; positions count from its first token.
    ``first_position`` is what the model is told of where ``input_ids`` begin.
    """

    examples: list[int]
    input_ids: Tensor  # [B, T]
    lengths: Tensor  # [B]
    target_positions: Tensor  # [B]
    label_positions: Tensor  # [B, N]
    demonstration_starts: Tensor  # [B, N]
    demonstration_ends: Tensor  # [B, N]
    demonstration_labels: Tensor  # [B, N]
    label_tokens: Tensor  # [C]
    labels: Tensor  # [B]
    prefix_tokens: int = 0
    first_position: int = 0

    @property
    def size(self) -> int:
        """Number of examples."""
        return len(self.examples)

    @property
    def target_rows(self) -> Tensor:
        """The target position of each example within ``input_ids``, [B]."""
        return self.target_positions - self.prefix_tokens


def runnable(prompts: pl.DataFrame, protocol: str) -> pl.DataFrame:
    """The prompts of one demonstration protocol that are short enough to run."""
    return prompts.filter(pl.col("demonstrations") == protocol, pl.col("skipped").is_null())


def batches_of(
    prompts: pl.DataFrame,
    batch_tokens: int,
    device: torch.device,
    prefix_tokens: int = 0,
    first_position: int | None = None,
) -> Iterator[Batch]:
    """Group prompts of similar length so that no batch holds more than ``batch_tokens`` tokens.

    Padding counts, a shared prefix of ``prefix_tokens`` does not; a prompt that is longer by
    itself still makes a batch of one. The longest come first, so a job that is going to run out of
    memory does so at once. Without a ``first_position``, what follows the prefix begins there.
    """
    first = prefix_tokens if first_position is None else first_position
    ordered = prompts.sort(["tokens", "example"], descending=True)
    start = 0
    while start < len(ordered):
        longest = ordered["tokens"][start] - prefix_tokens
        stop = min(len(ordered), start + max(1, batch_tokens // longest))
        yield _batch(ordered[start:stop], device, prefix_tokens, first)
        start = stop


def _batch(
    prompts: pl.DataFrame, device: torch.device, prefix_tokens: int, first_position: int
) -> Batch:
    def column(name: str) -> Tensor:
        return torch.tensor(prompts[name].to_list(), device=device)

    lengths = column("tokens") - prefix_tokens
    input_ids = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long, device=device)
    for row, token_ids in enumerate(prompts["token_ids"].to_list()):
        own = torch.tensor(token_ids[prefix_tokens:], device=device)
        input_ids[row, : len(own)] = own
    return Batch(
        examples=prompts["example"].to_list(),
        input_ids=input_ids,
        lengths=lengths,
        target_positions=column("target_position"),
        label_positions=column("label_positions"),
        demonstration_starts=column("demonstration_starts"),
        demonstration_ends=column("demonstration_ends"),
        demonstration_labels=column("demonstration_labels"),
        label_tokens=torch.tensor(prompts["label_tokens"][0].to_list(), device=device),
        labels=column("label"),
        prefix_tokens=prefix_tokens,
        first_position=first_position,
    )
