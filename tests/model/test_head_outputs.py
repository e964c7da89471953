"""What heads write, against sums over the modules of each family, and what is refused."""

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, adopt, intervene
from anchorflow.model.batches import Batch
from anchorflow.model.layers import decoder_layers
from anchorflow.model.logits import target_logits
from anchorflow.model.target_attention import FrozenNorm, RecordWrites, find_writes
from plain_heads import branches_of, kept_outputs, projection_of
from tiny_models import (
    FAMILIES,
    GATED,
    VOCABULARY,
    families,
    plain_attentions,
    random_batch,
    single,
    tiny_model,
)


def uneven(family: str, eager: bool = False) -> PreTrainedModel:
    """A tiny model whose norms and biases are not those of a new network."""
    model = tiny_model(family, eager)
    random = torch.Generator().manual_seed(1)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data += 0.2 * torch.randn(parameter.shape, generator=random)
    return model


def recorded(model: PreTrainedModel, batch: Batch) -> tuple[RecordWrites, torch.Tensor]:
    """What heads write for the label words, by token, and 1 / σ of every layer, [L, B]."""
    writing = find_writes(model)
    unembedding = model.get_output_embeddings().weight[batch.label_tokens]
    directions = [writing.directions(layer, unembedding) for layer in range(len(writing.weights))]
    tokens = batch.input_ids.shape[1]
    members = torch.eye(tokens).expand(batch.size, -1, -1)
    record = RecordWrites(directions, batch.target_rows, members)
    with intervene(record), writing.observed_scales(batch.target_rows) as scales:
        target_logits(model, batch)
    inverse = [scales.before_logits(layer) for layer in range(len(directions))]
    return record, torch.stack(inverse)


@pytest.mark.parametrize(
    "family", [*FAMILIES, "centering without weights", "one norm at both ends"]
)
def test_heads_mlps_embedding_and_biases_add_up_to_the_logit_difference(family: str) -> None:
    model, batch = uneven(family), random_batch([21])
    record, inverse = recorded(model, batch)
    unembedding = model.get_output_embeddings().weight[batch.label_tokens].float()
    layers = decoder_layers(model)
    branches = {}
    for number, layer in enumerate(layers):
        names = (f"attention {number}", f"mlp {number}")
        branches |= dict(zip(names, branches_of(layer, family), strict=True))
    begins: list[torch.Tensor] = []
    hook = layers[0].register_forward_pre_hook(lambda _, args: begins.append(args[0]))
    with kept_outputs(branches) as kept:
        logits = target_logits(model, batch)[:, batch.label_tokens]
    hook.remove()
    writing = find_writes(model)
    final = writing.final[1]

    def direct(vector: torch.Tensor) -> torch.Tensor:  # on the label words' logits, [C]
        return (final.applied(vector) @ unembedding.T) * inverse_of_final

    total = begins[0][0, -1].float()
    for output in kept.values():
        total = total + output.reshape(1, -1, output.shape[-1])[0, -1]
    straight = final.applied(total)
    inverse_of_final = 1 / (straight / final.gain).square().mean().sqrt()
    parts = direct(begins[0][0, -1].float())
    for number, layer in enumerate(layers):
        parts = parts + direct(kept[f"mlp {number}"].reshape(-1, total.shape[-1])[-1])
        of_heads = record.effects[number].sum((1, 2))[0] * inverse[number]
        parts = parts + of_heads
        bias = getattr(projection_of(layer), "bias", None)
        if bias is not None:
            parts = parts + direct(bias)
    parts = parts + final.bias @ unembedding.T
    head_bias = getattr(model.get_output_embeddings(), "bias", None)
    if head_bias is not None:
        parts = parts + head_bias[batch.label_tokens]
    cap = getattr(model.config, "final_logit_softcapping", None)
    uncapped = logits[0] if cap is None else cap * torch.atanh(logits[0] / cap)
    wanted = uncapped - uncapped.mean()
    torch.testing.assert_close(parts - parts.mean(), wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("family", families(*GATED))
def test_a_head_writes_the_sum_over_the_tokens_it_attends_to(family: str) -> None:
    """Tokens' parts, from eager attention, times the values behind the projection."""
    model, batch = uneven(family), random_batch([14, 21])
    record, _ = recorded(model, batch)
    seen, eager = _Values(), uneven(family, eager=True)
    with intervene(seen), torch.no_grad():
        target_logits(model, batch)
    for row, length in enumerate((14, 21)):
        _, attention = plain_attentions(eager, single(batch, row))
        for layer, effects in record.effects.items():
            by_token = effects[row, :, :length]  # [H, T, C]
            values = seen.values[layer][row, :, :length].float()  # [G, T, D]
            values = values.repeat_interleave(len(by_token) // len(values), 0)  # [H, T, D]
            direction = _directions(model, batch, layer)
            plain = torch.einsum("ht,htd,hdc->htc", attention[layer][:, -1], values, direction)
            torch.testing.assert_close(by_token, plain, rtol=1e-4, atol=1e-5)
            direction = torch.einsum(
                "hd,hdc->hc", record.outputs[layer][row], _directions(model, batch, layer)
            )
            torch.testing.assert_close(by_token.sum(1), direction, rtol=1e-4, atol=1e-5)


class _Values:
    """The values that every layer's attention mixes, [B, G, T, D]."""

    def __init__(self) -> None:
        self.values: dict[int, torch.Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> torch.Tensor:
        self.values[call.layer] = call.value
        return attention(call)


def _directions(model: PreTrainedModel, batch: Batch, layer: int) -> torch.Tensor:
    unembedding = model.get_output_embeddings().weight[batch.label_tokens]
    return find_writes(model).directions(layer, unembedding)


@pytest.mark.parametrize(
    "norm",
    [
        *(nn.LayerNorm(8), nn.RMSNorm(8)),
        *(nn.LayerNorm(8, elementwise_affine=False), nn.RMSNorm(8, elementwise_affine=False)),
    ],
)
def test_a_frozen_norm_does_to_its_input_what_the_norm_does(norm: nn.Module) -> None:
    random = torch.Generator().manual_seed(0)
    for parameter in norm.parameters():
        parameter.data = torch.randn(8, generator=random)
    norm.requires_grad_(False)
    frozen, vectors = (
        FrozenNorm.of(norm, 8, torch.device("cpu")),
        torch.randn(5, 8, generator=random),
    )
    inverse = frozen.inverse_scale(vectors, norm(vectors))
    again = frozen.applied(vectors) * inverse[:, None] + frozen.bias
    torch.testing.assert_close(again, norm(vectors))
    directions = torch.randn(3, 8, generator=random)
    forth = frozen.applied(vectors) @ directions.T
    torch.testing.assert_close(vectors @ frozen.pulled_back(directions).T, forth)


def test_several_residual_streams_are_refused() -> None:
    with pytest.raises(InputError, match="layer 0 does more than add its attention and its MLP"):
        find_writes(tiny_model("keys shared by layers"))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"residual_multiplier": 0.3}, "layer 0 does more than add its attention and its MLP"),
        ({"logits_scaling": 8.0}, "its logits are not those of the unembedding behind the final"),
    ],
)
def test_an_architecture_that_scales_what_is_written_is_refused(
    settings: dict[str, float], said: str
) -> None:
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = AutoConfig.for_model("granite", vocab_size=VOCABULARY, **sizes, **heads, **settings)
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.25)
    adopt(model)
    with pytest.raises(InputError, match=said):
        find_writes(model.eval())
