"""Attention rows and predictions against ``output_attentions`` of eager attention."""

from dataclasses import replace

import pytest
import torch

from anchorflow.analyses.attention.measure import measure_attention
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.logits import target_logits
from anchorflow.model.target_attention import RecordRows, by_demonstration
from stub_tokenizers import Decoder
from tiny_models import (
    EVERY_FAMILY,
    depth_of,
    plain_attentions,
    random_batch,
    shared_prompts,
    single,
    tiny_model,
    whole_batch,
)
from worded_prompts import with_words


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_rows_and_logits_equal_eager_attention_in_mixed_batches(family: str) -> None:
    batch = random_batch([37, 21, 50, 24])
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    recorded = RecordRows(batch.target_positions)
    with intervene(recorded):
        logits = target_logits(model, batch)
    rows = recorded.stacked(depth_of(model))
    for row in range(batch.size):
        plain_logits, attentions = plain_attentions(eager, single(batch, row))
        tokens = attentions.shape[-1]
        torch.testing.assert_close(logits[row], plain_logits, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(
            rows[:, row, :, :tokens], attentions[:, :, -1], rtol=1e-4, atol=1e-7
        )
        assert rows[:, row, :, tokens:].count_nonzero() == 0


def test_attention_to_a_label_word_is_the_sum_over_its_tokens_however_many_each_has() -> None:
    words = [[2, 1, 3], [1, 4, 1]]
    batch = whole_batch(with_words(shared_prompts([5, 17]), *words))
    assert batch.examples == [1, 0]
    tokens = batch.input_ids.shape[1]
    random = torch.Generator().manual_seed(0)
    rows = torch.rand(3, 2, 4, tokens, generator=random).softmax(-1)
    label = by_demonstration(rows, batch).label
    assert label.shape == (3, 2, 4, 3)
    for row, example in enumerate(batch.examples):
        for k, end in enumerate((9, 19, 29)):
            expected = sum(rows[:, row, :, end - 1 - n] for n in range(words[example][k]))
            torch.testing.assert_close(label[:, row, :, k], expected)


def test_every_row_of_the_table_is_that_of_its_demonstration() -> None:
    table, eager = shared_prompts([5, 17, 9]), tiny_model("llama", eager=True)
    measured, _ = measure_attention(tiny_model("llama"), Decoder(), table, 100)
    full, prompt = whole_batch(table), table.row(0, named=True)
    for row, example in enumerate(full.examples):
        mine = measured.filter(example=example)
        plain = plain_attentions(eager, single(full, row))[1][:, :, -1, prompt["label_positions"]]
        found = mine["attention_label"].to_numpy()
        assert found == pytest.approx(plain.numpy().ravel(), rel=1e-4, abs=1e-7)
        labels = prompt["demonstration_labels"]
        assert mine["label"].to_list() == labels * (len(mine) // len(labels))


@pytest.mark.parametrize(
    ("start", "largest", "mean"),
    [(0, 0.06, 0.04), (1, 0.06, 0.04)],  # without a BOS token, and with one
)
def test_the_first_token_of_a_prompt_is_no_kernel_weight_of_a_demonstration(
    start: int, largest: float, mean: float
) -> None:
    """The first token has attention .7 here, and the demonstration's others .02, .06 and .04."""
    batch = replace(
        random_batch([8], demonstrations=2),
        label_positions=torch.tensor([[2, 5]]),
        label_ends=torch.tensor([[3, 6]]),
        demonstration_starts=torch.tensor([[start, 4]]),
        demonstration_ends=torch.tensor([[4, 6]]),
    )
    row = torch.tensor([0.7, 0.02, 0.06, 0.04, 0.05, 0.03, 0.04, 0.06])
    measured = by_demonstration(row.expand(1, 1, 1, 8), batch)
    assert measured.largest.flatten().tolist() == pytest.approx([largest, 0.05])
    assert measured.mean.flatten().tolist() == pytest.approx([mean, 0.04])
    assert measured.label.flatten().tolist() == pytest.approx([0.06, 0.03])


def test_a_layer_that_reports_no_attention_is_named() -> None:
    recorded = RecordRows(torch.tensor([3]))
    with pytest.raises(InputError, match="2 of 2 layers is missing"):
        recorded.stacked(2)
