"""Estimates of what edges of attention contribute, against autograd on whole matrices."""

import polars as pl
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from anchorflow.analyses.faithfulness.measure import edges_named, measure_faithfulness
from anchorflow.analyses.knockout.measure import CellEdges
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.logits import label_logits
from anchorflow.prepare.positions import CLASSES
from constructed.wordy import wordy_prompts
from plain_gim import gim_products
from tiny_models import FAMILIES, HYBRIDS, depth_of, full_attention, tiny_model, whole_batch

EVERY = tuple(CLASSES)
STEPS = 3
BRIEFLY = ("gpt2", "llama", "gemma3")  # the others in the long tests


class PlainScaled:
    """Whole attention matrices as leaves; those of one layer are scaled."""

    def __init__(self, layer: int = -1, share: float = 1.0) -> None:
        self._layer, self._share = layer, share
        self.leaves: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        weights = scores.masked_fill(hidden, -torch.inf).softmax(-1)
        if call.layer == self._layer:
            weights = self._share * weights
        weights.retain_grad()
        self.leaves[call.layer] = weights
        return weights @ value


def products(model: object, batch: object, plain: PlainScaled) -> dict[int, Tensor]:
    """A and its gradient of every layer, each [B, H, T, T]."""
    with intervene(plain):
        logits = label_logits(model, batch)
        cross_entropy(logits, batch.labels, reduction="sum").backward()
    return {layer: (w.detach(), w.grad) for layer, w in plain.leaves.items()}


@pytest.mark.parametrize(
    "family",
    [f if f in BRIEFLY else pytest.param(f, marks=pytest.mark.long) for f in (*FAMILIES, *HYBRIDS)],
)
def test_every_estimate_equals_autograd_on_whole_matrices(family: str) -> None:
    model, table = tiny_model(family), wordy_prompts([5, 17, 9], "fixed")
    layers = depth_of(model)
    measured = measure_faithfulness(model, table, EVERY, 1, STEPS, 60)
    full, of_cell = whole_batch(table), CellEdges(table, 24)
    plain = products(model, full, PlainScaled())
    averaged = dict.fromkeys(range(layers), 0.0)
    for layer in range(layers):
        for share in ((2 * step + 1) / (2 * STEPS) for step in range(STEPS)):
            weights, gradient = products(model, full, PlainScaled(layer, share))[layer]
            averaged[layer] = averaged[layer] + weights / share * gradient / STEPS
    gim = gim_products(tiny_model(family), full)
    named = edges_named(EVERY, 1)
    assert len(measured) == 3 * layers * len(named)
    rtol = 1e-4 if family in FAMILIES else 5e-4  # a delta rule rounds more
    for each in named:
        edges = of_cell.of_whole(each.edges, each.draw if each.control else None, full)
        rows = measured.filter(**each._asdict()).sort("layer", "example")
        order = torch.tensor(full.examples).argsort()
        for layer in range(layers):
            weights, gradient = plain[layer]
            product = (weights * gradient).sum(1)
            expected = {
                "saliency": product.abs(),
                "gradient": -product,
                "integrated": -averaged[layer].sum(1),
                "attention": weights.mean(1),
                "gim": -gim[layer],
            }
            here = rows.filter(pl.col("layer") == layer)
            for name, values in expected.items():
                sums = (values.double() * edges).sum((1, 2))[order]
                # Terms of both signs cancel, so errors are compared with the terms' sizes.
                size = float((values.double().abs() * edges).sum((1, 2)).max())
                torch.testing.assert_close(
                    torch.tensor(here[name].to_list()).double(), sums, rtol=rtol, atol=1e-5 * size
                )


def test_without_steps_nothing_is_integrated() -> None:
    table = wordy_prompts([5], "fixed")
    measured = measure_faithfulness(tiny_model("llama"), table, EVERY[:1], 0, 0, 60)
    assert measured["integrated"].is_null().all()
    assert measured["saliency"].is_not_null().all()


def test_prompts_that_are_too_long_are_left_out() -> None:
    table = wordy_prompts([5], "fixed").with_columns(skipped=pl.Series(["exceeds the context"]))
    assert measure_faithfulness(tiny_model("llama"), table, EVERY, 1, 1, 500).is_empty()
