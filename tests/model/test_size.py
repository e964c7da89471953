"""What is counted of models without reading any weights, and of prompts."""

from typing import Any

import polars as pl
import pytest
import torch
from transformers import AutoConfig

from anchorflow.model.size import Prompts, Size
from tiny_models import FAMILIES, PREFIX, VOCABULARY, shared_prompts, tiny_model


def test_a_token_is_multiplied_with_the_layers_and_looked_up_in_embeddings() -> None:
    model = tiny_model("llama")
    table, every = VOCABULARY * 32, sum(p.numel() for p in model.parameters())
    # Without embeddings, head, and the norm before it. Two groups of keys and values of 8 numbers.
    multiplied = every - 2 * table - 32
    assert Size.of(model.config, torch.bfloat16) == Size(
        3, 32, 2 * 2 * 8, multiplied // 3, multiplied, every, table, table, 2
    )


def test_embeddings_that_are_the_head_too_are_read() -> None:
    size = Size.of(tiny_model("gpt2").config, torch.float32)
    assert (size.looked_up, size.head) == (256 * 32, VOCABULARY * 32)  # positions alone


def test_a_token_is_multiplied_with_the_experts_that_it_is_given_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = {**FAMILIES["llama"][1], "num_local_experts": 8, "num_experts_per_tok": 2}
    monkeypatch.setitem(FAMILIES, "mixtral", ("mixtral", settings))
    size = Size.of(tiny_model("mixtral").config, torch.float32)
    # In each of 3 layers, 6 of 8 experts, with three matrices of 32 · 48 each, are left out.
    left_out = 3 * 6 * 3 * 32 * 48
    assert size.multiplied + left_out + size.looked_up + size.head + 32 == size.parameters


def test_the_largest_layer_counts_where_layers_differ() -> None:
    config: Any = AutoConfig.for_model("gemma4_text", num_hidden_layers=6)
    size = Size.of(config, torch.bfloat16)
    assert size.layer > size.multiplied / 6


def test_an_architecture_whose_layers_are_not_found_has_a_size() -> None:
    config: Any = AutoConfig.for_model("ctrl", n_layer=2, n_embd=32, n_head=4, dff=48)
    size = Size.of(config, torch.float32)
    assert (size.layers, size.layer, size.multiplied) == (2, 0, 0)


def test_prompts_are_averaged_and_those_that_are_too_long_left_out() -> None:
    prompts = shared_prompts([10, 20])
    assert Prompts.of(prompts) == Prompts(2, PREFIX, 15, 3)
    assert Prompts.of(prompts.with_columns(skipped=prompts["task"])).texts == 0
    assert Prompts(2, 30, 15, 3)[:3] == (2, 30, 15)
    assert (Prompts(2, 30, 15, 3).once, Prompts(2, 30, 15, 3).whole) == (60, 90)


def test_whole_words_add_the_tokens_that_each_beginning_of_them_runs() -> None:
    words = [[1, 2], [1, 3], [4, 5, 6]]  # the first two run token 1, the third 4 and 5
    prompts = shared_prompts([10, 20]).with_columns(
        word_tokens=pl.Series([words] * 2, dtype=pl.List(pl.List(pl.Int32)))
    )
    found = Prompts.of(prompts, {"scoring": "whole_word", "word_score": "sum"})
    assert found == Prompts(2, PREFIX, 15, 3, 1 + 2)
    assert found.asked == 2 * (15 + 3)
    assert Prompts.of(prompts, {"scoring": "first_token"}).further == 0
