"""Prompts as right-padded batches under a token budget, which shrinks when memory runs out."""

import gc
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import polars as pl
import torch
from torch import Tensor

from anchorflow.config.errors import MORE_MEMORY, InputError, is_out_of_memory

log = logging.getLogger(__name__)

Measured = TypeVar("Measured")


class LabelWords(NamedTuple):
    """All tokens of each demonstration's label word; words may differ in length.

    Words are padded to the longest of the batch; padding repeats a word's last token.
    """

    at: Tensor  # [B, N, W], int: positions, or indices of keys
    real: Tensor  # [B, N, W], bool; False for padding

    @classmethod
    def between(cls, starts: Tensor, ends: Tensor) -> "LabelWords":
        """The words from ``starts`` up to before ``ends``, both [B, N] and on one device."""
        widths = (ends - starts)[..., None]
        longest = int(widths.max()) if widths.numel() else 1
        number = torch.arange(longest, device=starts.device)
        return cls(starts[..., None] + number.minimum(widths - 1), number < widths)

    def to(self, device: torch.device | str) -> "LabelWords":
        return LabelWords(self.at.to(device), self.real.to(device))

    def each(self, rows: Tensor) -> Tensor:
        """Attention to each token of the words, 0 for padding.

        Given ``rows``, [..., B, H, T], which are A(q, :), the result is [..., B, H, N, W],
        probabilities.
        """
        at = self.at.flatten(1)[:, None].expand(*rows.shape[:-1], -1)
        picked: Tensor = rows.gather(-1, at).unflatten(-1, self.at.shape[1:])
        return picked.masked_fill(~self.real[:, None], 0)

    def total(self, rows: Tensor) -> Tensor:
        """Attention to each word, which is the sum over its tokens: [..., B, H, N]."""
        return self.each(rows).sum(-1)


@dataclass(frozen=True)
class Batch:
    """Prompts of one task, padded on the right to the longest.

    With a shared prefix, ``input_ids`` are what follows it; positions count from its first token.
    ``first_position`` is the position id at which ``input_ids`` begin.
    """

    examples: list[int]
    input_ids: Tensor  # [B, T]
    lengths: Tensor  # [B]
    target_positions: Tensor  # [B]
    label_positions: Tensor  # [B, N], the first token of each label word
    label_ends: Tensor  # [B, N], the token after its last one
    demonstration_starts: Tensor  # [B, N]
    demonstration_ends: Tensor  # [B, N]
    demonstration_labels: Tensor  # [B, N]
    label_tokens: Tensor  # [C]
    labels: Tensor  # [B]
    prefix_tokens: int = 0
    first_position: int = 0

    @property
    def size(self) -> int:
        return len(self.examples)

    @property
    def label_words(self) -> LabelWords:
        """The positions of all tokens of the label words."""
        return LabelWords.between(self.label_positions, self.label_ends)

    @property
    def target_rows(self) -> Tensor:
        """The target position of each example within ``input_ids``, [B]."""
        return self.target_positions - self.prefix_tokens


@dataclass
class Budget:
    """The number of tokens that may run in one batch; lowered when memory runs out.

    Loops share a budget, so that only the first of them runs out of memory.
    """

    tokens: int

    def lower(self, batch: Batch) -> None:
        """Halve the budget after a batch that did not fit."""
        longest = batch.input_ids.shape[1]
        if batch.size == 1:
            tokens = batch.prefix_tokens + longest
            raise InputError(
                f"example {batch.examples[0]}: its prompt of {tokens} tokens does not fit into "
                f"memory even alone; {MORE_MEMORY}."
            )
        self.tokens = batch.size * longest // 2
        log.warning(
            "Memory does not hold %d prompts of up to %d tokens at once; continuing with batches "
            "of %d tokens (compute.batch_tokens).",
            batch.size,
            longest,
            self.tokens,
        )


def runnable(prompts: pl.DataFrame, protocol: str) -> pl.DataFrame:
    """The prompts of one demonstration protocol that are short enough to run."""
    return prompts.filter(pl.col("demonstrations") == protocol, pl.col("skipped").is_null())


def log_skipped(prompts: pl.DataFrame, what: str) -> None:
    """Warn of prompts that are not run, with the first reason."""
    reasons = prompts["skipped"].drop_nulls()
    if len(reasons):
        log.warning(
            "%d of %d prompts %s are skipped; the first one: %s.",
            len(reasons),
            len(prompts),
            what,
            reasons[0],
        )


def among(prompts: pl.DataFrame, examples: Collection[int] | None) -> pl.DataFrame:
    """The prompts of these test texts; all prompts if ``examples`` is None."""
    if examples is None:
        return prompts
    wanted = pl.Series(list(examples), dtype=pl.Int32)
    return prompts.filter(pl.col("example").is_in(wanted.implode()))


def batches_of(
    prompts: pl.DataFrame,
    batch_tokens: int,
    device: torch.device,
    prefix_tokens: int = 0,
    first_position: int | None = None,
) -> Iterator[Batch]:
    """Group prompts of similar length so that no batch holds more than ``batch_tokens`` tokens.

    Padding counts; a shared prefix of ``prefix_tokens`` does not. A prompt that exceeds the bound
    forms a batch of one. The longest prompts come first, so that a job that will run out of memory
    does so at once. By default, ``first_position`` is the end of the prefix.
    """
    budget, places = Budget(batch_tokens), (prefix_tokens, first_position)
    for batch, _ in run_batches(prompts, budget, device, lambda batch: batch, *places):
        yield batch


def run_batches(
    prompts: pl.DataFrame,
    budget: Budget,
    device: torch.device,
    measure: Callable[[Batch], Measured],
    prefix_tokens: int = 0,
    first_position: int | None = None,
) -> Iterator[tuple[Batch, Measured]]:
    """The batches of :func:`batches_of`, each with the result of ``measure``.

    When memory runs out, the budget is halved and the remaining prompts, including the current
    batch, are regrouped. Everything that takes memory therefore belongs in ``measure``, which may
    fail and should have no side effects.
    """
    left = prompts.sort(["tokens", "example"], descending=True)
    while not left.is_empty():
        batch = _first_batch(left, budget.tokens, device, prefix_tokens, first_position)
        ran = within_memory(partial(measure, batch))
        if not ran:
            budget.lower(batch)
        for measured in ran:
            yield batch, measured
            left = left[batch.size :]


def within_memory(run: Callable[[], Measured], smallest: bool = False) -> tuple[Measured, ...]:
    """The result of ``run`` alone; nothing, with unused memory freed, if memory has run out.

    That is an error if it is the ``smallest`` run that there is.
    """
    try:
        return (run(),)
    except (RuntimeError, MemoryError) as error:
        if smallest or not is_out_of_memory(error):
            raise
    # Not in the handler, where the error still references what the run has computed.
    gc.collect()
    torch.cuda.empty_cache()
    return ()


def _first_batch(
    ordered: pl.DataFrame,
    batch_tokens: int,
    device: torch.device,
    prefix_tokens: int,
    first_position: int | None,
) -> Batch:
    """As many of the first prompts as the budget allows; the first is the longest."""
    prompts = ordered[: max(1, batch_tokens // (ordered["tokens"][0] - prefix_tokens))]

    def column(name: str) -> Tensor:
        return torch.tensor(prompts[name].to_list(), device=device)

    lengths = column("tokens") - prefix_tokens
    input_ids = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long, device=device)
    for row, token_ids in enumerate(prompts["token_ids"].to_list()):
        ids = torch.tensor(token_ids[prefix_tokens:], device=device)
        input_ids[row, : len(ids)] = ids
    return Batch(
        examples=prompts["example"].to_list(),
        input_ids=input_ids,
        lengths=lengths,
        target_positions=column("target_position"),
        label_positions=column("label_positions"),
        label_ends=column("label_ends"),
        demonstration_starts=column("demonstration_starts"),
        demonstration_ends=column("demonstration_ends"),
        demonstration_labels=column("demonstration_labels"),
        label_tokens=torch.tensor(prompts["label_tokens"][0].to_list(), device=device),
        labels=column("label"),
        prefix_tokens=prefix_tokens,
        first_position=prefix_tokens if first_position is None else first_position,
    )
