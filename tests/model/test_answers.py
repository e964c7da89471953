"""Answers: the head, run once after several runs."""

import polars as pl
import pytest
import torch
from torch import Tensor

from anchorflow.analyses.attention.measure import measure_attention
from anchorflow.config.errors import is_out_of_memory
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Budget, batches_of
from anchorflow.model.last_tokens import keep_together
from anchorflow.model.logits import (
    Answers,
    answers_after,
    target_label_logits,
    target_logits,
    target_states,
)
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from out_of_memory import run_out
from stub_tokenizers import Decoder
from tiny_models import EVERY_FAMILY, random_batch, shared_prompts, tiny_model
from whole_vocabulary import assert_in_vocabulary
from worded_prompts import eager


def close(ours: Tensor, plain: Tensor) -> None:
    torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_logits_are_those_of_every_run_by_itself(family: str) -> None:
    model = tiny_model(family)
    runs = [random_batch([23, 31], seed=seed) for seed in range(2)]
    states = [target_states(model, batch) for batch in runs]
    answers = answers_after(model, states, runs[0].label_tokens, 4)
    for batch, ours in zip(runs, answers, strict=True):
        plain = target_logits(model, batch)
        assert plain.std() > 0
        close(ours.label_logits, plain[:, batch.label_tokens])
        assert ours.top_tokens.equal(plain.argsort(descending=True)[:, :4])
        close(ours.largest, torch.maximum(plain.max(1).values, -plain.min(1).values))
        close(target_label_logits(model, batch), plain[:, batch.label_tokens])


@pytest.mark.parametrize(
    ("fitting", "passes"), [(7, [7, 7, 1]), (4, [7, 3, 3, 3, 3, 3]), (1, [7, 3] + 15 * [1])]
)
def test_many_rows_are_split_into_passes_that_fit_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch, fitting: int, passes: list[int]
) -> None:
    model, batch = tiny_model("gemma2"), random_batch([23, 31, 19])
    plain, run = target_logits(model, batch), list[int]()
    runs = [target_states(model, batch) * scale for scale in (1, 2, 1, 2, 1)]

    def limited(_: object, inputs: tuple[torch.Tensor], __: object) -> None:
        run.append(len(inputs[0]))
        if run[-1] > fitting:
            run_out()

    model.get_output_embeddings().register_forward_hook(limited)
    monkeypatch.setattr("anchorflow.model.logits._HEAD_ROWS", 7)
    every = torch.arange(plain.shape[1])
    logits = [each.label_logits for each in answers_after(model, runs, every, 1)]
    assert run == passes
    for ours in logits[::2]:
        close(ours, plain)
    close(logits[1], logits[3])
    assert (logits[1] - plain).abs().max() > 1e-3
    assert answers_after(model, [], every, 1) == []


def test_a_head_that_does_not_fit_for_one_prompt_is_an_error() -> None:
    model, batch = tiny_model("llama"), random_batch([23, 31])
    states = [target_states(model, batch)]
    model.get_output_embeddings().register_forward_hook(lambda *_: run_out())
    with pytest.raises(RuntimeError) as caught:
        answers_after(model, states, batch.label_tokens, 1)
    assert is_out_of_memory(caught.value)


def test_logits_that_are_not_finite_show_in_the_largest() -> None:
    logits = torch.zeros(3, 9)
    logits[0, 5], logits[1, 2] = float("nan"), -float("inf")
    finite = Answers.of(logits, torch.tensor([0, 1]), 2).largest.isfinite()
    assert finite.tolist() == [False, False, True]


def test_label_words_have_the_probability_of_their_first_tokens_each_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # In the softmax, .5, .25, .125, and twice .0625, whatever is added to the logits.
    monkeypatch.setattr("anchorflow.model.logits._COLUMNS", 2)
    shares = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625])
    logits = torch.stack([shares.log(), shares.flip(0).log() - 300])
    apart = Answers.of(logits, torch.tensor([3, 1]), 1)
    torch.testing.assert_close(apart.label_mass, torch.tensor([0.3125, 0.3125]))
    assert apart.in_labels.tolist() == [False, False]
    shared = Answers.of(logits, torch.tensor([0, 3, 0]), 1)
    torch.testing.assert_close(shared.label_mass, torch.tensor([0.5625, 0.3125]))
    assert shared.in_labels.tolist() == [True, False]


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_predictions_say_how_probable_label_words_are_in_an_eager_run(family: str) -> None:
    table, plain = shared_prompts([5, 17, 9]), eager(tiny_model(family, eager=True))
    logits = torch.stack([plain(ids)[-1] for ids in table["token_ids"].to_list()])
    # Label words of which one is the likeliest token after the first prompt.
    first = int(logits[0].argmax())
    table = table.with_columns(label_tokens=pl.Series([[first, 11, 23]] * 3))
    _, rows = measure_attention(tiny_model(family), Decoder(), table, 40)
    assert_in_vocabulary(rows, logits, [first, 11, 23])
    assert rows["in_labels"][0]


@pytest.mark.parametrize("family", ["gemma2", "gpt2"])
def test_last_tokens_have_the_states_of_their_prompts(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17])
    prefix = compute_prefix(model, shared_token_ids(table))
    tokens = keep_together(model, table, prefix, Budget(10_000))
    with intervene(tokens):
        every = torch.arange(model.get_output_embeddings().weight.shape[0])
        ((ours, *_),) = answers_after(model, [tokens.states(model)], every, 1)
        plain = tokens.vocabulary_logits(model)
    close(ours, plain)
    (batch,) = batches_of(table, 10_000, torch.device("cpu"))
    order = [batch.examples.index(example) for example in tokens.examples]
    close(ours, target_logits(model, batch)[order])
