"""Which layers attend and which carry a state, how they are numbered, and what that costs."""

import polars as pl
import pytest
import torch
from transformers import AutoConfig

from anchorflow.model.layer_kinds import attention_layers, by_place, runs_again
from anchorflow.model.layers import attending_layers, decoder_layers
from anchorflow.model.size import Prompts, Size, cost_in, once, query_tokens
from tiny_models import FAMILIES, HYBRIDS, shared_prompts, tiny_model


@pytest.mark.parametrize("family", HYBRIDS)
def test_layers_that_attend_are_those_of_the_configuration(family: str) -> None:
    model = tiny_model(family)
    every = family == "falcon-h1"
    assert attention_layers(model.config) == ([0, 1] if every else [1, 3])
    assert runs_again(model.config)
    with_attention = [
        place
        for place, layer in enumerate(decoder_layers(model))
        if any(hasattr(module, "k_proj") for module in layer.modules())
    ]
    assert with_attention == attention_layers(model.config)
    assert attending_layers(model) == [decoder_layers(model)[at] for at in with_attention]


@pytest.mark.parametrize("family", FAMILIES)
def test_in_other_models_every_layer_attends_and_none_carries_a_state(family: str) -> None:
    config = tiny_model(family).config
    assert attention_layers(config) == list(range(config.num_hidden_layers))
    assert not runs_again(config)


def test_layers_of_a_mixer_or_an_mlp_alone_do_not_attend() -> None:
    config = AutoConfig.for_model("nemotron_h")
    assert [config.layer_types[place] for place in attention_layers(config)] == ["full_attention"]
    assert len(config.layer_types) > 1


def test_tables_number_layers_by_their_place_and_leave_what_is_no_layer() -> None:
    frame = pl.DataFrame({"layer": [0, 1, 2, -1, None], "layers": [0, 1, 2, 1, 1]})
    placed = by_place(frame, [3, 7], 8)
    assert placed["layer"].to_list() == [3, 7, 8, -1, None]  # 2, after the last one, is the depth
    assert placed["layers"].to_list() == [0, 1, 2, 1, 1]
    assert by_place(frame, range(8), 8).equals(frame)
    assert by_place(frame.drop("layer"), [3, 7], 8).equals(frame.drop("layer"))


def test_demonstrations_that_run_again_count_in_every_query_and_every_batch() -> None:
    prompts = Prompts(texts=10, demonstrations=100, query=20, labels=2)
    sizes = [Size.of(tiny_model(f).config, torch.float32) for f in ("llama", "lfm2")]
    assert [(size.layers, size.depth, size.state) for size in sizes] == [
        (3, 3, False),
        (4, 2, True),
    ]
    assert [cost_in(size, once, prompts).forward for size in sizes] == [300, 1200]
    table = shared_prompts([10, 30])  # after 30 shared tokens
    assert query_tokens(table, 600) == 300  # ten prompts of 60 tokens, 30 of each in the query
    assert query_tokens(table, 1) == 1
