"""Further kinds of attention, one model of each, against eager attention and written-out matrices.

A sink takes a share of every row, ALiBi adds a bias, chunks and indexers hide keys, and some
classes of transformers attend without its interface.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from anchorflow.analyses.flow.measure import SharedSaliency, batch_saliency
from anchorflow.analyses.isolation.measure import Isolate
from anchorflow.analyses.knockout.measure import Cut
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    Intervention,
    LayerPrefix,
    Positions,
    attending,
    attention_gradients,
    attention_rows,
    chunk_probabilities,
    eager_in_float32,
    intervene,
    plain_attention,
    row_chunks,
)
from anchorflow.model.batches import Batch, batches_of
from anchorflow.model.beta_fit import Reweight
from anchorflow.model.eager_comparison import check_against_eager
from anchorflow.model.layer_kinds import selects_keys
from anchorflow.model.logits import target_logits
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.target_attention import RecordRows
from resolved_models import saved
from tiny_models import (
    KINDS,
    PREFIX,
    WholeMatrices,
    full_attention,
    plain_attentions,
    plain_saliency,
    random_batch,
    random_beta,
    shared_prompts,
    single,
    tiny_model,
    whole_batch,
)

SELECTING = [kind for kind in KINDS if kind.startswith("selected")]
OTHERS = [kind for kind in KINDS if kind not in SELECTING]
BRIEFLY = ("sinks", "alibi", "rotary in line", "chunks", "latent")


class Plain:
    """Whole attention matrices with a sink as one more key, of which some entries are changed."""

    def __init__(
        self, gone: Tensor | None = None, after: Tensor | None = None, layer: int | None = None
    ) -> None:
        """``gone``, bool, is hidden before the softmax; ``after`` multiplies what is after it."""
        self._gone, self._after, self._layer = gone, after, layer

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        here = self._layer in (None, call.layer)
        if self._gone is not None and here:
            hidden = hidden | self._gone
        scores = scores.masked_fill(hidden, -torch.inf)
        if call.sinks is not None:
            sinks = call.sinks[:, None, None].expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, sinks], 3)
        weights = scores.softmax(-1)[..., : hidden.shape[-1]]
        return (weights * self._after if self._after is not None and here else weights) @ value


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_passes_the_comparison_with_eager_attention(tmp_path: Path, kind: str) -> None:
    found = check_against_eager("tiny", saved(tmp_path, tiny_model(kind, eager=True), "float32"))
    assert found["attention"] < 1e-5
    assert found["model"] < 2 * found["rounding"] + 1e-6


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("kind", OTHERS)
def test_each_kind_passes_it_in_half_precision(tmp_path: Path, kind: str, dtype: str) -> None:
    found = check_against_eager("tiny", saved(tmp_path, tiny_model(kind, eager=True), dtype))
    assert found["attention"] < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_rows_logits_and_flows_equal_eager_attention(kind: str) -> None:
    batch = random_batch([37, 50])
    model, eager = tiny_model(kind), tiny_model(kind, eager=True)
    depth = model.config.num_hidden_layers
    recorded, whole = RecordRows(batch.target_positions), WholeMatrices(depth, batch)
    with intervene(recorded):
        logits = target_logits(model, batch)
    batch_saliency(model, batch, whole)
    for row in range(batch.size):
        example = single(batch, row)
        plain_logits, attentions = plain_attentions(eager, example)
        tokens = attentions.shape[-1]
        rows = recorded.stacked(depth)[:, row, :, :tokens]
        torch.testing.assert_close(logits[row], plain_logits, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(rows, attentions[:, :, -1], rtol=1e-4, atol=1e-6)
        flows = plain_saliency(eager, example)
        ours = whole.matrices[:, row, :tokens, :tokens]
        assert (ours - flows).abs().max() <= 1e-4 * flows.abs().max()


@pytest.mark.parametrize("kind", OTHERS)
def test_behind_a_shared_prefix_logits_and_flows_are_those_of_full_prompts(kind: str) -> None:
    table = shared_prompts([5, 17])
    model, eager = tiny_model(kind), tiny_model(kind, eager=True)
    full, shared = whole_batch(table), SharedSaliency(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, torch.device("cpu"), PREFIX)
    with intervene(shared.prefix):
        logits = target_logits(model, batch)
    whole = WholeMatrices(model.config.num_hidden_layers, batch)
    shared.measure(batch, whole)
    for row in range(batch.size):
        example = single(full, row)
        torch.testing.assert_close(
            logits[row], plain_attentions(eager, example)[0], rtol=1e-4, atol=1e-4
        )
        flows = plain_saliency(eager, example)
        ours = whole.matrices[:, row, : flows.shape[-1], : flows.shape[-1]]
        assert (ours - flows).abs().max() <= 1e-4 * flows.abs().max()


@pytest.mark.parametrize(
    "kind", [k if k in BRIEFLY else pytest.param(k, marks=pytest.mark.long) for k in OTHERS]
)
def test_kept_positions_cuts_isolation_and_weights_equal_those_in_whole_matrices(kind: str) -> None:
    table, model = shared_prompts([11]), tiny_model(kind)
    full, prefix = whole_batch(table), compute_prefix(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, torch.device("cpu"), PREFIX)
    tokens, rows = PREFIX + 11, torch.arange(PREFIX + 11)

    def close(plain: Plain, run: Batch, *ours: Intervention) -> None:
        with intervene(*ours):
            found = target_logits(model, run)
        with intervene(plain):
            expected = target_logits(model, full)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)

    close(Plain(), full)
    kept = torch.tensor([[0, 8, 9, 18, 28]])
    gone = torch.zeros(tokens, tokens, dtype=torch.bool)
    gone[PREFIX:, [t for t in range(PREFIX) if t not in kept[0]]] = True
    close(Plain(gone), batch, prefix.keep(dict.fromkeys(prefix.layers, kept)))
    isolated = torch.tensor([8, 18])
    others = (rows[:, None] != rows) & torch.isin(rows, isolated)[:, None]
    layers = range(model.config.num_hidden_layers)
    for variant in ("mask", "zero"):
        plain = Plain(others) if variant == "mask" else Plain(after=(~others).float())
        close(plain, full, Isolate(isolated, layers, variant))
        close(plain, full, Cut(others[None], layers, variant))
    beta = random_beta(model)[:1].expand(len(layers), -1, -1)
    factors = torch.ones(beta.shape[1], tokens, tokens)
    factors[:, -1, [8, 18, 28]] = beta[0].exp()
    close(Plain(after=factors), full, Reweight(beta, full.target_rows, full.label_words))


@pytest.mark.parametrize("kind", SELECTING)
def test_layers_that_select_keys_do_so_among_what_precedes(kind: str) -> None:
    table, model = shared_prompts([11]), tiny_model(kind)
    prefix = compute_prefix(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, torch.device("cpu"), PREFIX)
    with intervene(prefix):
        found = target_logits(model, batch)
    expected = target_logits(model, whole_batch(table))
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_configurations_say_which_layers_select_keys() -> None:
    for kind in KINDS:
        model = tiny_model(kind, eager=True)
        indexers = [getattr(module, "indexer", None) for module in attending(model)]
        assert selects_keys(model.config) == any(indexers) == (kind in SELECTING)


def call(tokens: int = 8, **changes: object) -> AttentionCall:
    random = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, tokens, 8, generator=random)
    key, value = (torch.randn(2, 2, tokens, 8, generator=random) for _ in range(2))
    return replace(AttentionCall(0, query, key, value, 0.5), **changes)  # type: ignore[arg-type]


def test_a_sink_takes_its_share_of_every_row() -> None:
    """A row of equal scores 0 with a sink of log 2: each of n keys gets 1 / (n + 2)."""
    one = call(sinks=torch.tensor([2.0, 2.0, 1.0, 1.0]).log())
    one = replace(one, query=torch.zeros_like(one.query))
    rows = attention_rows(one, torch.tensor([[0, 3]]).expand(2, -1))
    torch.testing.assert_close(rows[:, 0, 0, 0], torch.full((2,), 1 / 3))
    torch.testing.assert_close(rows[:, 1, 1, :4], torch.full((2, 4), 1 / 6))
    torch.testing.assert_close(rows[:, 2, 1, :4], torch.full((2, 4), 1 / 5))
    assert rows[..., 1, 4:].count_nonzero() == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"sinks": torch.tensor([0.5, -1.0, 2.0, 0.0])},
        {"position_bias": torch.arange(4.0)[:, None] * torch.arange(30.0) / 10},
        {"chunk": 16, "sinks": torch.ones(4), "softcap": 1.5},
        {"unselected": torch.arange(30)[:, None] % 3 == torch.arange(1, 31) % 3},
    ],
)
def test_gradients_equal_autograd_on_whole_matrices(changes: dict[str, Tensor]) -> None:
    if "unselected" in changes:
        changes = {"unselected": changes["unselected"].expand(2, 1, 30, 30)}
    one = call(30, **changes)
    leaves = [t.clone().requires_grad_() for t in (one.query, one.key, one.value)]
    again = replace(one, query=leaves[0], key=leaves[1], value=leaves[2])
    expected = Plain().attend(again, plain_attention)
    torch.testing.assert_close(plain_attention(one), expected, rtol=1e-4, atol=1e-5)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1))
    expected.backward(upstream)
    found = [torch.zeros_like(leaf) for leaf in leaves]
    for start, stop in row_chunks(one, 24 * 4 * 30):
        keys = one.keys_of(start, stop)
        _, *parts = attention_gradients(one, upstream, start, stop)
        found[0][:, :, start:stop] = parts[0]
        found[1][:, :, keys] += parts[1]
        found[2][:, :, keys] += parts[2]
    for leaf, mine in zip(leaves, found, strict=True):
        torch.testing.assert_close(mine, leaf.grad, rtol=1e-4, atol=1e-5)


def test_position_biases_follow_the_positions_of_kept_keys() -> None:
    """Keys of a prefix at positions 1 and 4, then own ones from 6 on."""
    table = torch.arange(4.0)[:, None] * torch.arange(10.0)
    one = call(2, position_bias=table)
    random = torch.Generator().manual_seed(2)
    kept = [torch.randn(1, 2, 2, 8, generator=random) for _ in range(2)]
    places = Positions(torch.tensor([[6, 7]]), torch.tensor([[[1, 4, 6, 7]]]))
    behind = replace(one, prefix=LayerPrefix(*kept), positions=places)
    key = torch.cat([kept[0].expand(2, -1, -1, -1), one.key], 2).repeat_interleave(2, 1)
    scores = one.query @ key.transpose(-1, -2) * 0.5 + table[:, None, [1, 4, 6, 7]]
    scores[:, :, 0, 3] = -torch.inf
    found = chunk_probabilities(behind, 0, 2).unflatten(2, (2, 2)).flatten(1, 2)
    torch.testing.assert_close(found, scores.softmax(-1))


def test_no_token_attends_beyond_the_beginning_of_its_chunk() -> None:
    one = call(8, chunk=3)
    rows = attention_rows(one, torch.arange(8).expand(2, -1))[0, 0] > 0
    first = [next(k for k in range(8) if row[k]) for row in rows]
    assert first == [0, 0, 0, 3, 3, 3, 6, 6]
    assert (one.keys_of(5, 6), one.keys_of(7, 8)) == (slice(3, 6), slice(6, 8))


def test_the_selection_of_tokens_and_of_blocks_is_followed() -> None:
    from anchorflow.model.attention_function import _unselected

    tokens = _unselected(None, 4, indices=torch.tensor([[[0, 1], [1, 3]]]))
    assert tokens is not None
    assert tokens[0, 0].int().tolist() == [[0, 0, 1, 1], [1, 0, 1, 0]]

    class Sparse:
        indexer = type("Indexer", (), {"block_size": 2})

    chosen = torch.tensor([[[[1, -1]], [[2, 1]]]])  # of two key heads, one query, two blocks
    blocks = _unselected(Sparse, 5, block_indices=chosen)
    assert blocks is not None
    assert blocks[0, :, 0].int().tolist() == [[1, 1, 0, 0, 1], [1, 1, 0, 0, 0]]


def test_the_reference_leaves_a_model_as_it_was() -> None:
    for kind in ("alibi", "by a method", "sinks"):
        model, ids = tiny_model(kind, eager=True), torch.arange(20)[None]
        with torch.no_grad():
            before = model(input_ids=ids, use_cache=False).logits
            with eager_in_float32(model, lambda *_: None):
                model(input_ids=ids, use_cache=False)
            assert torch.equal(model(input_ids=ids, use_cache=False).logits, before)
