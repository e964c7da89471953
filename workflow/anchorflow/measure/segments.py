"""Where on the demonstrations attention lands ([K] Fig. 2).

A demonstration has five segments: the template before its text, the text, the template before its
label word, the label word, and the separator from the next demonstration.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SEGMENTS = ("before_text", "text", "before_label", "label", "after")
PLACES = 20


def segments_of(prompt: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Each token of the demonstrations with the index of its segment.

    A token that spans two segments belongs to the text, or else to the label word. If the text is
    empty, the whole template before the label word belongs to ``before_text``.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.

    Returns
    -------
    list of (token, segment)
    """
    formats = set(prompt["format_positions"])
    placed = []
    for start, label, after, end in zip(
        prompt["demonstration_starts"],
        prompt["label_positions"],
        prompt["label_ends"],
        prompt["demonstration_ends"],
        strict=True,
    ):
        text = [t for t in range(start, label) if t not in formats]
        first, last = (text[0], text[-1] + 1) if text else (label, label)
        bounds = (first, last, label, after)
        placed += [(t, sum(t >= bound for bound in bounds)) for t in range(start, end)]
    return placed


def segment_matrix(prompts: list[dict[str, Any]], tokens: int) -> Tensor:
    """[B, S, T]: 1 where token t of a prompt belongs to segment s of any demonstration."""
    matrix = torch.zeros(len(prompts), len(SEGMENTS), tokens)
    for row, prompt in enumerate(prompts):
        for token, segment in segments_of(prompt):
            matrix[row, segment, token] = 1
    return matrix


def segment_widths(prompts: list[dict[str, Any]]) -> NDArray[np.float64]:
    """[B, S]: each segment's share of a demonstration's tokens, averaged over demonstrations."""
    widths = np.zeros((len(prompts), len(SEGMENTS)))
    for row, prompt in enumerate(prompts):
        segment = dict(segments_of(prompt))
        spans = list(zip(prompt["demonstration_starts"], prompt["demonstration_ends"], strict=True))
        for start, end in spans:
            for token in range(start, end):
                widths[row, segment[token]] += 1 / (end - start) / len(spans)
    return widths


def attention_by_place(rows: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Attention along demonstrations rescaled to ``PLACES`` places, averaged over demonstrations.

    A place has the attention of the token that contains it.

    Parameters
    ----------
    rows : [L, B, H, T]
    starts, ends : [B, N]
        First token of each demonstration, and the token after its last.

    Returns
    -------
    Tensor
        [L, B, H, PLACES], attention per token.

    Source: Han et al. 2023, Fig. 2.
    """
    middle = (torch.arange(PLACES) + 0.5) / PLACES
    at = (starts[..., None] + (middle * (ends - starts)[..., None]).long()).flatten(1)  # [B, N·P]
    picked = rows.gather(-1, at[None, :, None].expand(*rows.shape[:3], -1))
    mean: Tensor = picked.unflatten(-1, (-1, PLACES)).mean(-2)
    return mean
