"""Saliency against autograd on eager attention, and its three means against values by hand."""

import polars as pl
import pytest
import torch
from torch import Tensor

from anchorflow.measure.saliency import (
    ALL,
    FlowSums,
    SharedSaliency,
    batch_saliency,
    flow_means,
    measure_saliency,
)
from anchorflow.model.batches import Batch, batches_of
from anchorflow.model.language_model import decoder_layers, recompute_activations
from anchorflow.model.prefix import shared_token_ids
from tiny_models import (
    FAMILIES,
    plain_saliency,
    random_batch,
    shared_prompts,
    single,
    tiny_model,
    whole_batch,
)


@pytest.mark.parametrize("family", ["gpt2", "gptj", "llama", "gemma3"])
def test_bfloat16_stays_near_float32(family: str) -> None:
    batch = random_batch([60, 45])
    means = []
    for dtype in (torch.float32, torch.bfloat16):
        model = tiny_model(family)
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        sums = FlowSums(batch)
        batch_saliency(model, batch, sums)
        means.append(torch.stack(sums.means(model.config.num_hidden_layers)))
    assert means[1].isfinite().all()
    # Random weights amplify rounding: eight bits of mantissa leave about a tenth on the means.
    torch.testing.assert_close(means[1].mean(2), means[0].mean(2), rtol=0.25, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("family", FAMILIES)
def test_saliency_on_cuda_equals_that_on_the_cpu(family: str) -> None:
    means = []
    for device in ("cpu", "cuda"):
        batch = random_batch([37, 21, 50])
        moved = type(batch)(
            **{k: v.to(device) if isinstance(v, Tensor) else v for k, v in vars(batch).items()}
        )
        model = tiny_model(family).to(device)  # type: ignore[arg-type]
        sums = FlowSums(moved)
        batch_saliency(model, moved, sums)
        means.append(torch.stack(sums.means(model.config.num_hidden_layers)))
    torch.testing.assert_close(means[1], means[0], rtol=1e-3, atol=1e-9)


class WholeMatrices:
    """A sink that keeps all of I_l, [L, B, T, T]."""

    def __init__(self, layers: int, batch: Batch) -> None:
        size, tokens = batch.size, batch.prefix_tokens + batch.input_ids.shape[1]
        self.matrices = torch.zeros(layers, size, tokens, tokens)

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        self.matrices[layer, examples, rows, keys] = saliency


def means_of(matrices: Tensor, example: Batch) -> Tensor:
    """The three means as [3, L] from I_l [L, T, T], pair by pair as they are defined."""
    labels = set(example.label_positions[0].tolist())
    target = int(example.target_positions[0])
    sums: dict[str, list[Tensor]] = {"wp": [], "pq": [], "ww": []}
    for i in range(matrices.shape[1]):
        for j in range(i):
            kind = "wp" if i in labels else "pq" if i == target and j in labels else "ww"
            sums[kind].append(matrices[:, i, j].double())
    return torch.stack([torch.stack(sums[kind]).mean(0) for kind in ("wp", "pq", "ww")])


def test_means_of_a_4_by_4_matrix_equal_the_values_worked_out_by_hand() -> None:
    saliency = torch.tensor(
        [[9.0, 0, 0, 0], [1, 9, 0, 0], [2, 4, 9, 0], [3, 5, 7, 9]],
    )
    means = flow_means(
        row_sums=saliency.tril(-1).sum(-1),
        target_row=saliency[3, [1]],
        label_positions=torch.tensor([1]),
        target_positions=torch.tensor(3),
    )
    assert means.s_wp.item() == 1.0  # (1, 0)
    assert means.s_pq.item() == 5.0  # (3, 1)
    assert means.s_ww.item() == 4.0  # (2, 0), (2, 1), (3, 0), (3, 2): 2, 4, 3, 7


def test_a_label_position_after_the_target_is_refused() -> None:
    with pytest.raises(ValueError, match="precede"):
        flow_means(torch.ones(4), torch.ones(1), torch.tensor([3]), torch.tensor(3))


@pytest.mark.parametrize("family", FAMILIES)
def test_saliency_equals_autograd_on_eager_attention_in_mixed_batches(family: str) -> None:
    batch = random_batch([37, 21, 50, 24])
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    layers = model.config.num_hidden_layers
    whole, sums = WholeMatrices(layers, batch), FlowSums(batch)
    batch_saliency(model, batch, whole)
    batch_saliency(model, batch, sums)
    means = torch.stack(sums.means(layers))
    for row in range(batch.size):
        example = single(batch, row)
        plain = plain_saliency(eager, example)
        tokens = plain.shape[-1]
        ours = whole.matrices[:, row, :tokens, :tokens]
        assert plain.abs().max() > 0
        assert (ours - plain).abs().max() <= 1e-4 * plain.abs().max()
        assert whole.matrices[:, row, tokens:].abs().max() == 0 if tokens < 50 else True
        torch.testing.assert_close(
            means[:, :, row], means_of(plain, example), rtol=1e-4, atol=1e-12
        )
        alone = FlowSums(example)
        batch_saliency(model, example, alone)
        torch.testing.assert_close(
            torch.stack(alone.means(layers))[:, :, 0], means[:, :, row], rtol=1e-4, atol=1e-12
        )


@pytest.mark.parametrize("family", FAMILIES)
def test_recomputed_activations_give_the_same_saliency(family: str) -> None:
    batch, model = random_batch([37, 21]), tiny_model(family)
    layers = model.config.num_hidden_layers
    assert len(decoder_layers(model)) == layers
    kept, recomputed = FlowSums(batch), FlowSums(batch)
    batch_saliency(model, batch, kept)
    recompute_activations(model)
    batch_saliency(model, batch, recomputed)
    torch.testing.assert_close(recomputed.means(layers), kept.means(layers), rtol=1e-6, atol=0)


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_demonstrations_give_the_saliency_of_full_prompts(family: str) -> None:
    table = shared_prompts([5, 17, 9])
    model, eager = tiny_model(family), tiny_model(family, eager=True)
    full = whole_batch(table)
    shared = SharedSaliency(model, shared_token_ids(table))
    (batch,) = batches_of(table, 1000, torch.device("cpu"), shared.prefix.tokens)
    for _ in range(2):  # the prefix's graph is there for the next batch too
        whole = WholeMatrices(model.config.num_hidden_layers, batch)
        shared.measure(batch, whole)
    for row in range(batch.size):
        plain = plain_saliency(eager, single(full, row))
        tokens = plain.shape[-1]
        ours = whole.matrices[:, row, :tokens, :tokens]
        assert (ours - plain).abs().max() <= 1e-4 * plain.abs().max()


@pytest.mark.parametrize("recompute", [False, True])
def test_fixed_demonstrations_give_the_same_table_with_and_without_sharing(
    recompute: bool,
) -> None:
    model, table = tiny_model("llama"), shared_prompts([5, 17, 9, 30])
    alone = table.with_columns(pl.lit("per_example").alias("demonstrations"))
    plain = measure_saliency(model, alone, 100)
    if recompute:
        recompute_activations(model)
    shared = measure_saliency(model, table, 100, "fixed")
    assert shared.shape == (12, 8)
    keys = ["example", "layer"]
    assert shared.select(keys).equals(plain.select(keys))
    for name in ("s_wp", "s_pq", "s_ww"):
        assert shared[name].to_list() == pytest.approx(plain[name].to_list(), rel=1e-4, abs=1e-12)
