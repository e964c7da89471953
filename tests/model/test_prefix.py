"""The shared prefix against full prompts and against eager attention."""

import polars as pl
import pytest
import torch

from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import batches_of
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.target_attention import RecordRows
from tiny_models import (
    FAMILIES,
    HYBRIDS,
    PREFIX,
    depth_of,
    plain_attentions,
    shared_prompts,
    single,
    tiny_model,
    whole_batch,
)


@pytest.mark.parametrize("family", [*FAMILIES, *HYBRIDS])
def test_logits_and_attention_equal_those_of_full_prompts(family: str) -> None:
    table = shared_prompts([5, 17, 9, 40])
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    full = whole_batch(table)
    prefix = compute_prefix(model, shared_token_ids(table))
    assert prefix.tokens == PREFIX
    (batch,) = batches_of(table, 10_000, torch.device("cpu"), prefix.tokens)
    assert batch.input_ids.shape == (4, 40)
    recorded = RecordRows(batch.target_rows)
    with intervene(prefix, recorded):
        logits = target_logits(model, batch)
    rows = recorded.stacked(depth_of(model))
    for row in range(batch.size):
        plain_logits, attentions = plain_attentions(eager, single(full, row))
        difference = (logits[row] - plain_logits).abs().max() / plain_logits.abs().max()
        assert difference <= 1e-4
        tokens = attentions.shape[-1]
        torch.testing.assert_close(
            rows[:, row, :, :tokens], attentions[:, :, -1], rtol=1e-4, atol=1e-7
        )


def test_a_long_query_in_chunks_of_rows_equals_the_full_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("anchorflow.model.attention_function.row_chunks.__defaults__", (1,))
    table = shared_prompts([50, 33])
    for family in ("llama", "gemma3", "gemma2"):
        model = tiny_model(family)
        full = target_logits(model, whole_batch(table))
        prefix = compute_prefix(model, shared_token_ids(table))
        (batch,) = batches_of(table, 10_000, torch.device("cpu"), prefix.tokens)
        with intervene(prefix):
            torch.testing.assert_close(target_logits(model, batch), full, rtol=1e-4, atol=1e-5)


def test_the_shared_tokens_end_where_prompts_differ_and_before_every_query() -> None:
    table = shared_prompts([5, 5])
    assert len(shared_token_ids(table)) == PREFIX
    assert len(shared_token_ids(table[:1])) == PREFIX
    differing = table.with_columns(
        pl.Series("token_ids", [list(range(35)), [*range(28), 90, *range(29, 35)]])
    )
    assert shared_token_ids(differing) == list(range(28))
