"""Re-weighting by one token against attention matrices of full prompts, and its fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import Batch, Budget
from anchorflow.model.beta_fit import (
    Descent,
    DivergenceError,
    Fitted,
    Planned,
    Reweight,
    fit_reweighting,
    fit_side_by_side,
)
from anchorflow.model.last_tokens import LastTokens, Words, keep_together
from anchorflow.model.layers import decoder_layers
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.random_draws import generator
from out_of_memory import run_out
from tiny_models import (
    EVERY_FAMILY,
    full_attention,
    random_beta,
    shared_prompts,
    tiny_model,
    whole_batch,
)
from worded_prompts import eagerly_weighted, with_words


def factors_of(beta: Tensor, batch: Batch, tokens: int) -> Tensor:
    """What attention is multiplied by, [L, B, H, T, T]: exp(β) from the target to label words."""
    layers, heads, _ = beta.shape
    factors = torch.ones(layers, batch.size, heads, tokens, tokens)
    for example, target in enumerate(batch.target_positions):
        firsts, ends = batch.label_positions[example], batch.label_ends[example]
        for k, (first, end) in enumerate(zip(firsts, ends, strict=True)):
            factors[:, example, :, target, first:end] = beta[:, :, k, None].exp()
    return factors


class PlainReweighting:
    """Whole attention matrices, with the target's row multiplied by exp(β) at the label words."""

    def __init__(self, beta: Tensor, batch: Batch) -> None:
        self._beta, self._batch = beta, batch

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        factors = factors_of(self._beta, self._batch, scores.shape[-1])[call.layer]
        return (scores.masked_fill(hidden, -torch.inf).softmax(-1) * factors) @ value


def last_tokens(model: PreTrainedModel, table: pl.DataFrame) -> LastTokens:
    prefix = compute_prefix(model, shared_token_ids(table))
    return keep_together(model, table, prefix, Budget(10_000))


def with_last_tokens() -> tuple[PreTrainedModel, LastTokens]:
    """A model, and the last tokens of six prompts, two of each label."""
    model = tiny_model("llama")
    return model, last_tokens(model, shared_prompts([5, 17, 9, 12, 6, 8]))


def logits_of(model: PreTrainedModel, tokens: LastTokens, beta: Tensor | None = None) -> Tensor:
    with intervene(tokens, *([] if beta is None else [Reweight.last(beta, tokens)])):
        return tokens.logits(model)


def plain_logits(model: PreTrainedModel, batch: Batch, beta: Tensor) -> Tensor:
    with intervene(PlainReweighting(beta, batch)):
        logits: Tensor = model(input_ids=batch.input_ids, use_cache=False).logits
    return logits[torch.arange(batch.size), batch.target_positions][:, batch.label_tokens]


def difference(ours: Tensor, plain: Tensor) -> float:
    return float((ours - plain).abs().max() / plain.abs().max())


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_one_token_gives_the_logits_of_full_prompts_under_any_weights(family: str) -> None:
    model, table = tiny_model(family), with_words(shared_prompts([5, 17, 9, 1]), [2, 1, 3])
    tokens, full = last_tokens(model, table), whole_batch(table)
    assert tokens.examples == full.examples
    beta = random_beta(model)
    with torch.no_grad():
        plain = plain_logits(model, full, beta)
        ours = logits_of(model, tokens, beta)
        untouched = logits_of(model, tokens)
        with intervene(Reweight(beta, full.target_rows, full.label_words)):
            whole = target_logits(model, full)[:, full.label_tokens]
    assert difference(ours, plain) <= 1e-4
    assert difference(whole, plain) <= 1e-4
    assert difference(untouched, target_logits(model, full)[:, full.label_tokens]) <= 1e-4
    assert difference(untouched, plain) > 1e-2


RAGGED = [[2, 1, 3], [1, 4, 1], [1, 1, 1]]  # tokens of the label words of three prompts


@pytest.mark.parametrize("family", ["gpt2", "gemma3"])
def test_weights_apply_to_every_token_of_a_word_as_in_transformers_eager_attention(
    family: str,
) -> None:
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    table, beta = with_words(shared_prompts([5, 17, 9]), *RAGGED), random_beta(model)
    full = whole_batch(table)
    # Words lie before, across, and after the end of a prefix of 17 tokens.
    prefix = compute_prefix(model, shared_token_ids(table)[:17])
    tokens = keep_together(model, table, prefix, Budget(20))
    assert tokens.examples == full.examples
    factors = factors_of(beta, full, full.input_ids.shape[1])
    with torch.no_grad():
        ours = logits_of(model, tokens, beta)
        alone = [logits_of(model, tokens.select(torch.tensor([row])), beta) for row in range(3)]
        with eagerly_weighted(eager, factors):
            plain = eager(full.input_ids, use_cache=False).logits
        first_only = replace(full, label_ends=full.label_positions + 1)
        with intervene(Reweight(beta, full.target_rows, first_only.label_words)):
            less = target_logits(model, full)[:, full.label_tokens]
    plain = plain[torch.arange(3), full.target_positions][:, full.label_tokens]
    assert difference(ours, plain) <= 1e-4
    assert difference(torch.cat(alone), plain) <= 1e-4
    assert difference(less, plain) > 1e-3


def plain_descent(
    model: PreTrainedModel, full: Batch, descent: Descent, random: np.random.Generator
) -> tuple[Tensor, list[float]]:
    """β and losses of the same optimization with whole prompts, by autograd through all of it."""
    beta = nn.Parameter(torch.zeros_like(random_beta(model)))
    optimizer = torch.optim.Adam([beta], lr=descent.learning_rate)
    losses = []
    for _ in range(descent.epochs):
        order = random.permutation(full.size)
        size = descent.batch_size or full.size
        for start in range(0, full.size, size):
            rows = order[start : start + size]
            logits = plain_logits(model, full, beta)[rows]
            loss = cross_entropy(logits, full.labels[rows])
            losses.append(float(loss.detach()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return beta.detach(), losses


@pytest.mark.parametrize(
    ("family", "batch_size"), [("gpt2", 1), ("gptj", 2), ("llama", 0), ("gemma3", 2)]
)
def test_ten_epochs_follow_the_full_prompts_step_by_step(family: str, batch_size: int) -> None:
    model, table = tiny_model(family), with_words(shared_prompts([5, 17, 9, 12, 6]), [2, 1, 3])
    labels = pl.lit([0, 1, 0], dtype=table.schema["demonstration_labels"])
    table = table.with_columns(demonstration_labels=labels)  # two of one label
    descent = Descent(learning_rate=0.1, epochs=10, batch_size=batch_size)
    plain_beta, plain_losses = plain_descent(
        model, whole_batch(table), descent, np.random.default_rng(3)
    )
    beta, steps = descent.fit(model, last_tokens(model, table), np.random.default_rng(3))
    assert [step.step for step in steps] == list(range(len(plain_losses)))
    np.testing.assert_allclose([step.loss for step in steps], plain_losses, rtol=1e-3)
    assert difference(beta, plain_beta) <= 1e-3
    each = len(steps) // descent.epochs
    assert np.mean(plain_losses[-each:]) < 0.95 * np.mean(plain_losses[:each])


def test_weights_of_label_words_beyond_the_sliding_window_stay_zero() -> None:
    model = tiny_model("gemma3")
    tokens = last_tokens(model, shared_prompts([17, 20, 30]))  # the window is 12 tokens
    beta, _ = Descent(0.1, 3, 0).fit(model, tokens, np.random.default_rng(0))
    kinds = model.config.layer_types
    assert set(kinds) == {"sliding_attention", "full_attention"}
    for layer, kind in zip(beta, kinds, strict=True):
        assert bool(layer.all()) == (kind == "full_attention")
        assert bool(layer.any()) == (kind == "full_attention")


def test_held_out_texts_are_not_learned_from() -> None:
    model, tokens = with_last_tokens()
    spec = {"learning_rates": [0.1, 0.2], "epochs": 2, "batch_size": 1}
    trials = fit_reweighting(model, [tokens], spec, 0, "news")[0].trials
    assert [trial.fold for trial in trials] == [0, 1, 0, 1]
    assert [len(trial.steps) for trial in trials] == [2 * 3] * 4
    by_label = tokens.labels.argsort(stable=True)
    learned = tokens.select(by_label[1::2])
    beta, steps = Descent(0.1, 2, 1).fit(model, learned, generator(0, "news", "reweighting", 0))
    for alone, beside in zip(steps, trials[0].steps, strict=True):
        assert beside == (alone.epoch, alone.step, pytest.approx(alone.loss, rel=1e-5))
    held_out = tokens.select(by_label[0::2])
    assert sorted(held_out.labels.tolist()) == [0, 1, 2]
    logits = logits_of(model, held_out, beta)
    alone = cross_entropy(logits, held_out.labels).item()
    assert trials[0].loss == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize("rates", [[1e-4, 0.2], [0.2, 1e-4]])
def test_the_rate_with_the_lowest_held_out_loss_is_taken(rates: list[float]) -> None:
    model, tokens = with_last_tokens()
    spec = {"learning_rates": rates, "epochs": 3, "batch_size": 0}
    fit = fit_reweighting(model, [tokens], spec, 0, "news")[0]
    loss = {
        rate: np.mean([trial.loss for trial in fit.trials if trial.learning_rate == rate])
        for rate in rates
    }
    assert fit.descent.learning_rate == min(loss, key=lambda rate: loss[rate])
    assert len(set(loss.values())) == 2
    alone = fit.descent.fit(model, tokens, generator(0, "news", "reweighting"))
    torch.testing.assert_close(fit.beta, alone[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("family", "words"), [("gptj", None), ("gemma3", Words(((9, 4), (3,), (8, 2, 5)), mean=False))]
)
def test_fits_side_by_side_take_the_steps_that_each_takes_alone(
    family: str, words: Words | None
) -> None:
    model = tiny_model(family)
    tokens = last_tokens(model, shared_prompts([5, 17, 9, 12, 6]))

    def plans() -> list[Planned]:
        """Of different rates, lengths, batches, and texts; the second one diverges."""
        return [
            Planned(descent, torch.tensor(rows), np.random.default_rng(number))
            for number, (descent, rows) in enumerate(
                [
                    (Descent(0.1, 4, 1), [0, 1, 2, 3, 4]),
                    (Descent(1e30, 4, 2), [0, 1, 2, 3, 4]),
                    (Descent(0.01, 3, 2), [4, 0, 2]),
                    (Descent(0.1, 2, 0), [1, 3]),
                ]
            )
        ]

    beside = fit_side_by_side(model, tokens, plans(), words)
    alone = [fit_side_by_side(model, tokens, [plan], words)[0] for plan in plans()]
    assert [len(fit.steps) for fit in beside] == [20, 2, 6, 2]
    assert [fit.diverged is None for fit in beside] == [True, False, True, True]
    assert str(beside[1].diverged) == str(alone[1].diverged)
    for one, other in zip(beside, alone, strict=True):
        assert [step[:2] for step in one.steps] == [step[:2] for step in other.steps]
        np.testing.assert_allclose(
            [step.loss for step in one.steps], [step.loss for step in other.steps], rtol=1e-5
        )
    torch.testing.assert_close(beside[0].beta, alone[0].beta, rtol=1e-3, atol=1e-5)
    assert difference(beside[0].beta, beside[2].beta) > 1e-2


@pytest.mark.parametrize(
    ("fitting", "passes"), [(5, [9, 4, 5, 4, 5]), (4, [9, 4, 5, 2, 3, 2, 2, 2, 3])]
)
def test_fits_that_do_not_fit_into_memory_at_once_take_the_same_steps(
    fitting: int, passes: list[int]
) -> None:
    model = tiny_model("llama")
    tokens = last_tokens(model, shared_prompts([5, 17, 9, 12, 6]))

    def plans() -> list[Planned]:
        rows = ([0, 1], [2, 4], [3, 1], [2, 0, 1])
        return [
            Planned(Descent(0.1 * (n + 1), 2, 0), torch.tensor(each), np.random.default_rng(n))
            for n, each in enumerate(rows)
        ]

    run = list[int]()

    def limited(_: object, inputs: tuple[torch.Tensor, ...], __: object) -> None:
        if torch.is_grad_enabled():
            run.append(len(inputs[0]))
            if run[-1] > fitting:
                run_out()

    plain = fit_side_by_side(model, tokens, plans())
    decoder_layers(model)[-1].register_forward_hook(limited)
    ours = fit_side_by_side(model, tokens, plans())
    assert run == passes
    for one, other in zip(ours, plain, strict=True):
        assert [step[:2] for step in one.steps] == [step[:2] for step in other.steps]
        losses = [[step.loss for step in each.steps] for each in (one, other)]
        np.testing.assert_allclose(*losses, rtol=1e-5)
        torch.testing.assert_close(one.beta, other.beta, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("rates", [[0.1, 1000.0], [1000.0, 0.1]])
def test_a_rate_that_diverges_is_not_taken(rates: list[float]) -> None:
    model, tokens = with_last_tokens()
    for epochs in (1, 3):
        spec = {"learning_rates": rates, "epochs": epochs, "batch_size": 0}
        fit = fit_reweighting(model, [tokens], spec, 0, "news")[0]
        assert fit.descent.learning_rate == 0.1
        lost = [trial for trial in fit.trials if trial.learning_rate == 1000]
        assert [trial.loss for trial in lost] == [np.inf, np.inf]


def test_if_every_rate_diverges_the_task_and_key_are_told() -> None:
    model, tokens = with_last_tokens()
    spec = {"learning_rates": [1000.0, 2000.0], "epochs": 2, "batch_size": 0}
    with pytest.raises(
        InputError, match=r"reweighting.learning_rates: for tasks.news, .* rate 100"
    ):
        fit_reweighting(model, [tokens], spec, 0, "news")


def test_which_cache_a_fit_diverges_on_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokens = with_last_tokens()
    side_by_side = fit_side_by_side

    def one_diverges(*given: Any) -> list[Fitted]:
        first, second = side_by_side(*given)
        return [first, second._replace(diverged=DivergenceError("too fast."))]

    monkeypatch.setattr("anchorflow.model.beta_fit.fit_side_by_side", one_diverges)
    spec = {"learning_rates": [0.1], "epochs": 1, "batch_size": 0}
    told = "tasks.news, with the anchors alone kept, too fast, or leave hidden_anchor out of"
    with pytest.raises(InputError, match=told):
        fit_reweighting(model, [tokens, tokens], spec, 0, "news")


@pytest.mark.parametrize("epochs", [1, 5])
def test_a_diverging_rate_is_told_with_its_step(epochs: int) -> None:
    model, tokens = with_last_tokens()
    step = 1 if epochs == 1 else 2  # seen after the last step, or before the next one
    told = (
        rf"learning rate 1000 the loss is no longer finite in step {step} \(epoch {step}\); lower"
    )
    with pytest.raises(DivergenceError, match=told):
        Descent(1000.0, epochs, 0).fit(model, tokens, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((0.0, 1, 1), "learning_rate: 0.0 should be more than 0"),
        ((0.1, 0, 1), "epochs: 0 should be at least 1"),
        ((0.1, 1, -1), "batch_size: -1 should be at least 0"),
    ],
)
def test_a_descent_that_would_fit_nothing_is_refused(
    values: tuple[float, int, int], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        Descent(*values)
