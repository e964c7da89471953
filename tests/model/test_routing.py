"""Routing of attention: against logits written out in eager runs, and nothing without it."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.attention_function import AttentionCall, intervene
from anchorflow.model.batches import Budget
from anchorflow.model.beta_fit import Descent, Planned, fit_side_by_side, label_scores, loss_under
from anchorflow.model.last_tokens import LastTokens, keep_together
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.routing import Routing, principal_directions
from tiny_models import FAMILIES, HYBRIDS, KINDS, shared_prompts, tiny_model, whole_batch

RANK = 3


def learned(model: PreTrainedModel, lengths: list[int]) -> LastTokens:
    prompts = shared_prompts(lengths)
    prefix = compute_prefix(model, shared_token_ids(prompts))
    return keep_together(model, prompts, prefix, Budget(1000))


def random_routing(model: PreTrainedModel, tokens: LastTokens) -> Routing:
    """Directions of these tokens, with coefficients that differ by layer and head."""
    directions = principal_directions(model, tokens, RANK)
    heads = model.config.get_text_config().num_attention_heads
    drawn = torch.Generator().manual_seed(0)
    shape = directions.start(heads).shape
    return Routing(0.5 * torch.randn(shape, generator=drawn), directions)


class Added:
    """The logits of eager attention with the term added, written out for the target's row."""

    def __init__(self, routing: Routing, row: int) -> None:
        self._routing, self._row = routing, row

    def attend(self, call: AttentionCall, attention: object) -> Tensor:
        """Attention over all keys, as [B, H, T, D]."""
        groups = call.query.shape[1] // call.key.shape[1]
        key, value = (t.repeat_interleave(groups, 1) for t in (call.key, call.value))
        scores = call.scaling * call.query @ key.transpose(-1, -2)
        alpha, gate = self._routing.coefficients[call.layer].split([RANK, call.query.shape[1]])
        of_query, of_key = (side[call.layer] for side in self._routing.directions)
        term = (call.query[:, :, self._row] @ of_query) * alpha  # [B, H, r]
        term = torch.einsum("bhr,bhkr->bhk", term, key @ of_key) * gate[None, :, None]
        scores[:, :, self._row] += term
        if call.softcap is not None:
            scores = call.softcap * torch.tanh(scores / call.softcap)
        if call.position_bias is not None:
            scores = scores + call.position_bias[None, :, None, : scores.shape[3]]
        hidden = call.hidden(0, scores.shape[2])
        hidden = torch.nn.functional.pad(hidden, (scores.shape[3] - hidden.shape[3], 0), value=True)
        scores = scores.masked_fill(hidden, -torch.inf)
        if call.sinks is not None:
            sinks = call.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ value
        return scores.softmax(-1) @ value


SAMPLE = ["gpt2", "gemma3", "sinks"]
OTHERS = ["llama", "gemma2", "alibi", "latent", "chunks", "keys shared by layers", *HYBRIDS]


@pytest.mark.parametrize(
    "family", [*SAMPLE, *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
)
def test_routing_adds_its_term_to_the_target_s_logits_of_full_prompts(family: str) -> None:
    assert family in {**FAMILIES, **KINDS, **HYBRIDS}
    model = tiny_model(family)
    tokens = learned(model, [5, 9, 7, 6])
    routing = random_routing(model, tokens)
    found = label_scores(model, tokens, routing)
    batch = whole_batch(shared_prompts([5, 9, 7, 6]))
    plain = label_scores(model, tokens)
    for row, example in enumerate(batch.examples):
        ids = batch.input_ids[row : row + 1, : batch.target_rows[row] + 1]
        with torch.no_grad(), intervene(Added(routing, ids.shape[1] - 1)):
            logits = model(ids, use_cache=False).logits[0, -1, batch.label_tokens]
        here = tokens.examples.index(example)
        assert (found[here] - logits).abs().max() < 1e-4
    assert (found - plain).abs().max() > 1e-3


def test_coefficients_of_0_change_no_bit_in_any_dtype() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        model = tiny_model("gemma3").to(dtype)
        tokens = learned(model, [5, 9, 7])
        directions = principal_directions(model, tokens, RANK)
        start = Routing(directions.start(model.config.num_attention_heads), directions)
        plain = label_scores(model, tokens)
        assert torch.equal(label_scores(model, tokens, start), plain)
        closed = start.coefficients.clone()
        closed[:, :RANK], closed[:, RANK:] = 1, 0
        assert torch.equal(label_scores(model, tokens, Routing(closed, directions)), plain)


class Recorded:
    """Queries and keys of last tokens, one row for each head or group of each prompt."""

    def __init__(self) -> None:
        self.rows: list[tuple[Tensor, Tensor]] = []

    def attend(self, call: AttentionCall, attention: Callable[[AttentionCall], Tensor]) -> Tensor:
        """The same output."""
        self.rows.append((call.query[:, :, -1].flatten(0, 1), call.key[:, :, -1].flatten(0, 1)))
        return attention(call)


def test_coordinates_along_directions_are_uncorrelated_and_of_size_1_the_widest_first() -> None:
    model = tiny_model("llama")
    tokens, recorded = learned(model, [5, 9, 7, 6, 8]), Recorded()
    with torch.no_grad(), intervene(tokens, recorded):
        tokens.states(model)
    directions = principal_directions(model, tokens, RANK)
    for layer, sides in enumerate(recorded.rows):
        for rows, of_side in zip(sides, directions, strict=True):
            coordinates = rows @ of_side[layer]
            torch.testing.assert_close(coordinates.square().mean(0), torch.ones(RANK))
            covariance = torch.cov(coordinates.T)
            apart = covariance - covariance.diagonal().diag()
            torch.testing.assert_close(apart, torch.zeros(RANK, RANK), atol=1e-5, rtol=0)
            along = torch.nn.functional.normalize(of_side[layer], dim=0)
            widths = (rows @ along).var(0)
            widest = torch.linalg.eigvalsh(torch.cov(rows.T)).flip(0)[:RANK]
            torch.testing.assert_close(widths, widest, atol=1e-5, rtol=1e-4)
    heads, layers = model.config.num_attention_heads, len(attention_layers(model.config))
    assert directions.start(heads).shape == (layers, RANK + heads)
    few = principal_directions(model, learned(model, [5]), 99)
    assert few.rank <= 2  # of one prompt's keys, of two groups


def test_a_fit_lowers_the_loss_and_batched_coefficients_are_those_of_their_prompt() -> None:
    model = tiny_model("llama")
    tokens = learned(model, [5, 9, 7, 6])
    directions = principal_directions(model, tokens, RANK)
    plan = Planned(Descent(0.1, 10, 0), torch.arange(4), np.random.default_rng(0))
    (fitted,) = fit_side_by_side(model, tokens, [plan], directions=directions)
    start = Routing(directions.start(model.config.num_attention_heads), directions)
    assert fitted.steps[0].loss == pytest.approx(loss_under(model, tokens, start), rel=1e-6)
    assert loss_under(model, tokens, Routing(fitted.beta, directions)) < fitted.steps[0].loss
    both = torch.stack([start.coefficients, fitted.beta, start.coefficients, fitted.beta])
    mixed = label_scores(model, tokens, Routing(both, directions))
    each = [label_scores(model, tokens, Routing(c, directions)) for c in both[:2]]
    torch.testing.assert_close(mixed[[0, 2]], each[0][[0, 2]], atol=1e-5, rtol=0)
    torch.testing.assert_close(mixed[[1, 3]], each[1][[1, 3]], atol=1e-5, rtol=0)
