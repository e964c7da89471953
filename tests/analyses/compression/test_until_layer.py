"""What is kept where everything is kept in the first layers alone."""

import pytest
import torch

from anchorflow.analyses.compression.measure import Cache
from anchorflow.analyses.compression.methods import Demonstrations
from anchorflow.analyses.compression.methods.until_layer import choose
from anchorflow.model.attention_function import LayerPrefix
from anchorflow.model.prefix import Prefix


def shown(layers: int, tokens: int) -> Demonstrations:
    kept = LayerPrefix(torch.zeros(1, 2, tokens, 4), torch.zeros(1, 2, tokens, 4))
    return Demonstrations({}, Prefix(tokens, dict.fromkeys(range(layers), kept)), {})


@pytest.mark.parametrize(
    ("budget", "whole"), [(1, 0), (3, 0), (4, 1), (6, 2), (9, 3), (10, 4), (12, 4)]
)
def test_the_first_layers_are_as_many_as_the_budget_pays_for(budget: int, whole: int) -> None:
    # Of 10 tokens in 4 layers: each layer that keeps everything takes 9 of 4 · (budget - 1) more.
    kept = choose(shown(4, 10), budget, 0)
    everything, first = list(range(10)), [0]
    assert [kept[layer][0].tolist() for layer in range(4)] == [
        everything if layer < whole else first for layer in range(4)
    ]
    assert sum(each.shape[1] for each in kept.values()) <= 4 * budget


def test_what_a_cache_keeps_is_the_mean_over_layers_that_differ() -> None:
    demonstrations = shown(4, 10)
    cache = Cache(demonstrations.prefix.keep(choose(demonstrations, 6, 0)), 10)
    assert cache.kept == 6  # of 10, 10, 1, and 1: 5.5, rounded up
    assert cache.prefix.bytes == 4 * 2 * 2 * 4 * (10 + 10 + 1 + 1)


def test_a_single_token_is_kept_everywhere() -> None:
    kept = choose(shown(2, 1), 1, 0)
    assert [each.tolist() for each in kept.values()] == [[[0]], [[0]]]
