"""Attribution patching against autograd and exchanges in full prompts."""

from dataclasses import replace

import polars as pl
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from anchorflow.analyses.faithfulness.measure import measure_faithfulness
from anchorflow.analyses.faithfulness.patching import measure_patching, predicted
from anchorflow.analyses.transplant.measure import donor_words
from anchorflow.model.attention_function import Attention, AttentionCall, LayerPrefix, intervene
from anchorflow.model.logits import label_logits
from anchorflow.random_draws import generator
from plain_gim import PlainGim, frozen_norms
from tiny_models import (
    FAMILIES,
    HYBRIDS,
    KINDS,
    PREFIX,
    depth_of,
    full_attention,
    shared_prompts,
    tiny_model,
    whole_batch,
)

BRIEFLY = ("llama", "gemma3")
EVERY = [
    family if family in BRIEFLY else pytest.param(family, marks=pytest.mark.long)
    for family in (*FAMILIES, *KINDS)
    if not family.startswith("selected")  # keys, which is refused
]
LABELS = [8, 18, 28]


class PlainExchange:
    """Whole matrices in which queries see other keys and values, of which the shift is a leaf."""

    def __init__(self, shifts: dict[int, tuple[Tensor, Tensor]] | None = None) -> None:
        self._shifts, self.leaves = shifts or {}, dict[int, tuple[Tensor, Tensor]]()
        self.seen: dict[int, tuple[Tensor, Tensor]] = {}

    def output(self, call: AttentionCall) -> Tensor:
        scores, hidden, value = full_attention(call)
        scores = scores.masked_fill(hidden, -torch.inf)
        if call.sinks is not None:
            sinks = call.sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, sinks], -1)
        return scores.softmax(-1)[..., : hidden.shape[-1]] @ value

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        self.seen[call.layer] = (call.key.detach(), call.value.detach())
        leaves = [torch.zeros_like(each) for each in (call.key, call.value)]
        for leaf, shift in zip(leaves, self._shifts.get(call.layer, ()), strict=False):
            leaf[:, :, LABELS] = shift[:, :, LABELS]
        key, value = (leaf.requires_grad_() for leaf in leaves)
        self.leaves[call.layer] = (key, value)
        other = replace(call, key=call.key + key, value=call.value + value)
        own, queries = self.output(call), self.output(other)
        return torch.cat([own[:, :, :PREFIX], queries[:, :, PREFIX:]], 2)


class GimExchange(PlainExchange):
    def output(self, call: AttentionCall) -> Tensor:
        return PlainGim().attend(call, lambda _: call.query)


@pytest.mark.parametrize("family", EVERY)
def test_estimates_and_changes_equal_those_of_full_prompts(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 9])
    found = measure_patching(model, table, ["label"], "permuted", 500).sort("layer", "example")
    random = generator(0, "news", "transplant", "permuted", 0)
    words = donor_words(table.row(0, named=True), "permuted", random)
    assert words is not None
    ids = [row.copy() for row in table["token_ids"].to_list()]
    for row in ids:
        for k, word in words.items():
            row[LABELS[k]] = word[0]
    batch, donor = (whole_batch(t) for t in (table, table.with_columns(token_ids=pl.Series(ids))))
    order = torch.tensor(batch.examples).argsort()

    def losses(plain: PlainExchange, of: object = batch) -> Tensor:
        with intervene(plain):
            return cross_entropy(label_logits(model, of), batch.labels, reduction="none")

    own, gim, other = PlainExchange(), GimExchange(), PlainExchange()
    untouched = losses(own)
    untouched.sum().backward()
    losses(other, donor)
    with frozen_norms(model):
        losses(gim).sum().backward()
    assert len(found) == 2 * depth_of(model)
    for layer in range(depth_of(model)):
        shifts = [d - o for d, o in zip(other.seen[layer], own.seen[layer], strict=True)]
        rows = found.filter(pl.col("layer") == layer)
        for name, plain in (("gradient", own), ("gim", gim)):
            parts = [
                (shift * leaf.grad)[:, :, LABELS].sum((1, 2, 3))
                for shift, leaf in zip(shifts, plain.leaves[layer], strict=True)
            ]
            size = max(float(part.abs().max()) for part in parts) + 1e-3
            expected = sum(parts)[order].detach()
            ours = torch.tensor(rows[name].to_list())
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4 * size)
        changed = losses(PlainExchange({layer: tuple(shifts)})) - untouched
        ours = torch.tensor(rows["change"].to_list())
        torch.testing.assert_close(ours, changed[order].detach(), rtol=1e-4, atol=1e-5)


def test_a_change_to_first_order_by_hand() -> None:
    """Keys that differ by 2 where the gradient is 3, and values by -1 where it is 5: 6 - 5."""
    own = LayerPrefix(torch.ones(1, 1, 2, 1), torch.ones(1, 1, 2, 1))
    changed = LayerPrefix(own.key + torch.tensor([0.0, 2.0])[:, None], own.value - 1)
    gradients = (torch.full((1, 1, 2, 1), 3.0), torch.tensor([5.0, 0.0])[None, None, :, None])
    assert predicted(changed, own, gradients).tolist() == [1.0]


def test_rows_of_transplants_stand_beside_those_of_edges() -> None:
    table = shared_prompts([5, 9])
    how = (["label_to_target"], 0, 0, 500, [1])
    both = measure_faithfulness(tiny_model("llama"), table, *how, ["label", "text"])
    counts = dict(both.group_by("edges").len().rows())
    assert counts == {"label_to_target": 3, "label_transplanted": 3, "text_transplanted": 3}
    assert both["change"].is_null().sum() == 3
    edges = measure_faithfulness(tiny_model("llama"), table, *how)
    assert both.filter(edges="label_to_target").equals(edges)


def test_models_that_carry_a_state_have_rows_of_edges_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = tiny_model(next(iter(HYBRIDS)))
    how = (["label_to_target"], 0, 0, 500, [1])
    found = measure_faithfulness(model, shared_prompts([5, 9]), *how, ["label"])
    assert set(found["edges"]) == {"label_to_target"}
    assert "No donor's keys and values for model tiny. " in caplog.text
