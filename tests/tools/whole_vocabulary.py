"""What the whole vocabulary says of label words, from logits of plain runs."""

from collections.abc import Sequence

import polars as pl
import torch
from torch import Tensor

APART = ["probabilities", "label_mass"]  # columns that rounding may change


def assert_in_vocabulary(rows: pl.DataFrame, logits: Tensor, label_tokens: Sequence[int]) -> None:
    """``label_mass`` is a plain softmax's within 1e-6, ``in_labels`` says where its largest is.

    The logits are [rows, vocabulary]; some label words may begin with the same token.
    """
    firsts = sorted({*label_tokens})
    plain = logits.softmax(-1)
    torch.testing.assert_close(
        torch.tensor(rows["label_mass"].to_list()), plain[:, firsts].sum(-1), rtol=0, atol=1e-6
    )
    assert rows["in_labels"].to_list() == [token in firsts for token in plain.argmax(-1).tolist()]


def assert_same_but_for_rounding(found: pl.DataFrame, expected: pl.DataFrame, *more: str) -> None:
    """Two tables of predictions are equal but for probabilities, and these are close."""
    apart = [*APART, *more]
    assert found.drop(apart).equals(expected.drop(apart))
    for name in apart:
        values = [torch.tensor(table[name].to_list()) for table in (found, expected)]
        torch.testing.assert_close(*values, rtol=1e-5, atol=1e-6)
