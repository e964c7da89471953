"""Where on the demonstrations attention lands ([K] §5.1, Fig. 2).

The segments of a demonstration are the template before its text, the text, the template before its
label word, the label word, and the separator from the next demonstration. If a text has several
fields, each of them, and the template before it, is a segment.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PLACES = 20  # equally spaced along each demonstration


def segment_names(fields: Sequence[str]) -> list[str]:
    """Names of the segments of a demonstration with these fields, in the order of the prompt."""
    of_fields = chain.from_iterable((f"before_{name}", name) for name in fields)
    return [*of_fields, "before_label", "label", "after"]


def segments_of(prompt: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Each token of the demonstrations, with the index of its segment.

    A token that spans two segments belongs to the field, else to the label word; if it spans two
    fields, to the first. If a field is empty, the template on both of its sides belongs to the
    segment before it. Segments are indices into :func:`segment_names`.
    """
    placed = []
    fields = len(prompt["field_names"])
    demonstrations = zip(
        prompt["demonstration_starts"],
        prompt["label_positions"],
        prompt["label_ends"],
        prompt["demonstration_ends"],
        strict=True,
    )
    for k, (start, label, after, end) in enumerate(demonstrations):
        of_demonstration = slice(k * fields, (k + 1) * fields)
        spans = zip(
            prompt["field_starts"][of_demonstration],
            prompt["field_ends"][of_demonstration],
            strict=True,
        )
        bounds = [*chain.from_iterable(spans), label, after]
        placed += [(t, sum(t >= bound for bound in bounds)) for t in range(start, end)]
    return placed


def segment_matrix(prompts: list[dict[str, Any]], tokens: int) -> Tensor:
    """[B, S, T]: 1 where token t belongs to segment s of a demonstration, else 0."""
    segments = len(segment_names(prompts[0]["field_names"]))
    matrix = torch.zeros(len(prompts), segments, tokens)
    for row, prompt in enumerate(prompts):
        for token, segment in segments_of(prompt):
            matrix[row, segment, token] = 1
    return matrix


def segment_widths(prompts: list[dict[str, Any]]) -> NDArray[np.float64]:
    """[B, S]: share of each segment in a demonstration's tokens, averaged over demonstrations."""
    widths = np.zeros((len(prompts), len(segment_names(prompts[0]["field_names"]))))
    for row, prompt in enumerate(prompts):
        segment = dict(segments_of(prompt))
        spans = list(zip(prompt["demonstration_starts"], prompt["demonstration_ends"], strict=True))
        for start, end in spans:
            for token in range(start, end):
                widths[row, segment[token]] += 1 / (end - start) / len(spans)
    return widths


def attention_by_place(rows: Tensor, starts: Tensor, ends: Tensor) -> Tensor:
    """Attention along demonstrations, rescaled to ``PLACES`` places and averaged over them.

    Each place takes the attention to the token that contains its middle. Given the target's
    attention [L, B, H, T], the result is [L, B, H, PLACES], attention per token. Demonstrations
    begin at ``starts`` and end before ``ends``, [B, N].

    Source: Han et al. 2025, §5.1 and Fig. 2.
    """
    middle = (torch.arange(PLACES) + 0.5) / PLACES
    at = (starts[..., None] + (middle * (ends - starts)[..., None]).long()).flatten(1)  # [B, N·P]
    picked = rows.gather(-1, at[None, :, None].expand(*rows.shape[:3], -1))
    mean: Tensor = picked.unflatten(-1, (-1, PLACES)).mean(-2)
    return mean
