"""What precedes queries in models that carry a state: run again, and never silently left out."""

import pytest
import torch
from torch import Tensor

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, adopt, intervene
from anchorflow.model.batches import Budget, batches_of
from anchorflow.model.interventions import IntervenedRun, answers_of_runs
from anchorflow.model.last_tokens import Words, keep_together
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from tiny_models import HYBRIDS, shared_prompts, tiny_model, whole_batch

CPU = torch.device("cpu")


def prefix_of(family: str) -> Prefix:
    return compute_prefix(tiny_model(family), shared_token_ids(shared_prompts([5, 9])))


@pytest.mark.parametrize("family", ["granite-hybrid", "lfm2", "falcon-h1"])
def test_without_the_state_of_the_demonstrations_answers_would_differ(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17])
    prefix = compute_prefix(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, CPU, prefix.tokens)
    full = target_logits(model, whole_batch(table))
    with intervene(prefix):
        assert (target_logits(model, batch) - full).abs().max() < 1e-4
    stateless = Prefix(prefix.tokens, prefix.layers)
    with intervene(stateless):
        assert (target_logits(model, batch) - full).abs().max() > 1e-2


def test_a_model_that_is_adopted_twice_runs_what_precedes_once() -> None:
    model, table = tiny_model("lfm2"), shared_prompts([5, 17])
    full = target_logits(model, whole_batch(table))
    adopt(model)
    prefix = compute_prefix(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, CPU, prefix.tokens)
    with intervene(prefix):
        torch.testing.assert_close(target_logits(model, batch), full, rtol=1e-4, atol=1e-5)


def test_models_without_a_state_run_nothing_again() -> None:
    assert prefix_of("llama").preceding is None
    assert prefix_of("lfm2").preceding is not None


def test_only_the_first_tokens_kept_leave_their_state_and_others_that_of_all() -> None:
    prefix = prefix_of("lfm2")
    assert prefix.preceding is not None

    def ran(*kept: int, layers: tuple[int, ...] = (0, 1)) -> int:
        some = prefix.keep({layer: torch.tensor([kept]) for layer in layers})
        assert some.preceding is not None
        return some.preceding.token_ids.shape[1]

    assert (ran(0), ran(0, 1, 2)) == (1, 3)
    assert (ran(0, 2), ran(1, 2)) == (30, 30)
    assert ran(0, 1, layers=(1,)) == 30  # the cutoff, from a layer on


def test_a_cache_of_transformers_is_refused_in_one_sentence() -> None:
    model = tiny_model("lfm2")
    ids, prefix = torch.tensor([[5, 6]]), prefix_of("lfm2")
    cache = model(ids, use_cache=True).past_key_values
    places = torch.tensor([[30, 31]])
    with intervene(prefix), pytest.raises(InputError, match="which is not cached"):
        model(ids, position_ids=places, past_key_values=cache)


def test_a_run_with_other_demonstrations_begins_at_the_first_layer() -> None:
    model, table = tiny_model("lfm2"), shared_prompts([5, 17])
    untouched = compute_prefix(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, CPU, untouched.tokens)
    other = compute_prefix(model, [3, *shared_token_ids(table)[1:]])
    runs = [IntervenedRun(other, start) for start in (0, 1)]
    _, first, later = answers_of_runs(model, batch, untouched, runs, 1)
    assert torch.equal(first.scores, later.scores)


@pytest.mark.parametrize("family", HYBRIDS)
def test_padding_of_a_batch_changes_no_answer(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 40])
    prefix = compute_prefix(model, shared_token_ids(table))
    together = keep_together(model, table, prefix, Budget(1000))
    alone = keep_together(model, table.filter(example=0), prefix, Budget(1000))
    found = []
    for tokens in (together, alone):
        with intervene(tokens):
            found.append(tokens.logits(model)[tokens.examples.index(0)])
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


class Halved:
    """Attention whose output is halved, from one row on."""

    def __init__(self, first: int = 0) -> None:
        self._first, self.calls = first, 0

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        self.calls = self.calls + 1
        output = attention(call).clone()
        output[:, :, self._first :] *= 0.5
        return output


@pytest.mark.parametrize("family", ["granite-hybrid", "jamba"])
def test_whole_words_follow_the_state_of_their_prompts_under_interventions(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17])
    words = Words(((5, 8), (11, 7, 2), (23,)), mean=False)
    untouched = compute_prefix(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, CPU, untouched.tokens)
    run = IntervenedRun(untouched, 0, (Halved(),), lambda _: (Halved(),))
    _, answers = answers_of_runs(model, batch, untouched, [run], 1, words)
    rows = {row["example"]: row["token_ids"] for row in table.iter_rows(named=True)}
    for place, example in enumerate(batch.examples):
        for label, word in enumerate(words.tokens):
            ids = torch.tensor([[*rows[example], *word]])
            with torch.no_grad(), intervene(Halved(untouched.tokens)):
                logs = model(ids, use_cache=False).logits[0].log_softmax(-1)
            first = ids.shape[1] - len(word) - 1
            score = sum(float(logs[first + at, token]) for at, token in enumerate(word))
            assert float(answers.scores[place, label]) == pytest.approx(score, abs=1e-4)


def test_what_changes_the_demonstrations_changes_them_before_last_tokens_and_counts_once() -> None:
    model, table = tiny_model("granite-hybrid"), shared_prompts([5, 17])
    halved = Halved()
    prefix = compute_prefix(model, shared_token_ids(table), halved)
    assert halved.calls == 2  # in both layers that attend
    tokens = keep_together(model, table, prefix, Budget(20))  # in two batches
    with intervene(tokens):
        found = tokens.logits(model)
    assert halved.calls == 2
    for place, example in enumerate(tokens.examples):
        ids = torch.tensor([table.filter(example=example)["token_ids"][0].to_list()])
        with torch.no_grad(), intervene(_OnFirst(prefix.tokens)):
            plain = model(ids, use_cache=False).logits[0, -1, tokens.label_tokens]
        torch.testing.assert_close(found[place], plain, rtol=1e-4, atol=1e-5)


class _OnFirst:
    """Attention whose output is halved in the first rows alone."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        output = attention(call).clone()
        output[:, :, : self._rows] *= 0.5
        return output
