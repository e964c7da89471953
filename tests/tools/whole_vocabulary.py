"""Logits of plain runs, and what they and the whole vocabulary say of label words."""

from collections.abc import Sequence

import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.attention_function import Intervention, intervene
from tiny_models import whole_batch


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


def logits_in_full(
    model: PreTrainedModel, prompts: pl.DataFrame, *changes: Intervention, **given: Tensor
) -> Tensor:
    """Logits at the targets of prompts that are run in full, by example: [examples, vocabulary]."""
    full = whole_batch(prompts)
    with torch.no_grad(), intervene(*changes):
        logits = model(input_ids=full.input_ids, use_cache=False, **given).logits
    at_targets = logits[torch.arange(full.size), full.target_positions]
    return at_targets[torch.tensor(full.examples).argsort()]


def assert_predicted(
    rows: pl.DataFrame, logits: Tensor, label_tokens: Sequence[int], rtol: float = 1e-4
) -> None:
    """Predictions, by example, are what the logits [examples, vocabulary] of a plain run say."""
    rows = rows.sort("example")
    found = torch.tensor(rows["probabilities"].to_list())
    plain = logits[:, label_tokens].softmax(-1)
    torch.testing.assert_close(found, plain, rtol=rtol, atol=rtol / 100)
    assert_in_vocabulary(rows, logits, label_tokens)
    if "top_tokens" in rows.columns:
        several = len(rows["top_tokens"][0])
        assert rows["top_tokens"].to_list() == logits.topk(several).indices.tolist()
