"""Key distances by hand and from eager queries and keys."""

from collections.abc import Callable
from itertools import combinations

import numpy as np
import polars as pl
import pytest
import torch
from scipy.spatial.distance import pdist
from torch import Tensor

from anchorflow.analyses.confusion import CONFUSION
from anchorflow.analyses.confusion.measure import (
    key_distances,
    key_distances_by_head,
    measure_confusion,
    word_keys,
)
from anchorflow.analyses.confusion.plot import pair_matrix
from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.schemas.frames import frame_schema
from tiny_models import (
    EVERY_FAMILY,
    depth_of,
    full_attention,
    shared_prompts,
    tiny_model,
    whole_batch,
)

Measure = Callable[..., Array]

PAIRS = np.triu_indices(3, 1)
MEASURES = {
    "concatenated": lambda *arguments: key_distances(*arguments, 10),
    "separate": key_distances_by_head,
}
both = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)


@both
def test_distances_count_only_directions_in_which_queries_vary(measure: Measure) -> None:
    queries = np.zeros((4, 1, 3))
    queries[:, 0, 0] = [1, -1, 3, -3]  # one principal component, along the first axis
    queries[:, 0, 2] = 7  # all alike there
    keys = np.array([[[0.0, 5, 1], [1, 9, 2], [4, 0, 3]]])  # one key head, three label words
    distances = measure(queries, keys, [0, 1, 2], 3)
    np.testing.assert_allclose(distances[PAIRS], [1 / 4, 4 / 4, 3 / 4])
    assert np.isnan(np.diagonal(distances)).all()


def test_queries_that_vary_alike_in_two_heads_see_what_the_heads_keys_have_together() -> None:
    """Keys (1, -1) of two heads cancel along (1, 1), but not in the heads by themselves."""
    queries = np.array([[[1.0], [1]], [[-1], [-1]]])
    keys = np.array([[[0.0], [1], [1]], [[0], [-1], [1]]])  # two heads, three label words
    together = key_distances(queries, keys, [0, 1, 2], 3, 10)
    np.testing.assert_allclose(together[PAIRS], [0, 1, 1], atol=1e-12)
    apart = key_distances_by_head(queries, keys, [0, 1, 2], 3)
    np.testing.assert_allclose(apart[PAIRS], np.sqrt([2, 2, 4]) / 2)


def test_distances_are_those_along_scaled_principal_components_of_all_heads() -> None:
    random = np.random.default_rng(0)
    queries, keys = random.normal(size=(19, 4, 6)), random.normal(size=(2, 3, 6))
    wide = queries.reshape(19, 24)
    columns = np.concatenate([keys[0], keys[0], keys[1], keys[1]], 1)  # shared by two query heads
    _, singular, directions = np.linalg.svd(wide - wide.mean(0), full_matrices=False)
    for components in (3, 10, 50):
        projected = columns @ directions[:components].T * singular[:components]
        plain = pdist(projected)
        found = key_distances(queries, keys, [0, 1, 2], 3, components)
        np.testing.assert_allclose(found[PAIRS], plain / plain.max())


def test_distances_within_heads_are_those_along_scaled_principal_components() -> None:
    random = np.random.default_rng(0)
    queries, keys = random.normal(size=(9, 4, 6)), random.normal(size=(2, 3, 6))
    plain = np.zeros((3, 3))
    for head in range(4):
        centered = queries[:, head] - queries[:, head].mean(0)
        _, singular, components = np.linalg.svd(centered, full_matrices=False)
        projected = keys[head // 2] @ components.T * singular
        for a, b in combinations(range(3), 2):
            plain[a, b] += ((projected[a] - projected[b]) ** 2).sum()
    plain = np.sqrt(plain[PAIRS])
    np.testing.assert_allclose(
        key_distances_by_head(queries, keys, [0, 1, 2], 3)[PAIRS], plain / plain.max()
    )


@both
def test_several_demonstrations_of_a_label_count_by_their_mean_distance(measure: Measure) -> None:
    queries = np.array([[[1.0]], [[-1.0]]])
    keys = np.array([[[0.0], [1.0], [2.0], [4.0]]])
    distances = measure(queries, keys, [0, 1, 0, 2], 3)
    np.testing.assert_allclose(distances[0, 1] / distances[0, 2], ((1 + 1) / 2) / ((4 + 2) / 2))


@both
def test_a_label_without_demonstration_has_no_distance(measure: Measure) -> None:
    queries = np.array([[[1.0]], [[-1.0]]])
    distances = measure(queries, np.array([[[0.0], [1.0], [3.0]]]), [0, 2, 3], 5)
    assert np.isnan(distances[[1, 4]]).all()
    np.testing.assert_allclose(distances[0, [2, 3]], [1 / 3, 1])


@both
@pytest.mark.parametrize("shift", [0.0, 1e-9])
def test_keys_that_no_query_tells_apart_have_no_distance(measure: Measure, shift: float) -> None:
    queries = np.ones((3, 1, 2)) + shift * np.arange(3)[:, None, None]
    assert np.isnan(measure(queries, np.eye(2)[None], [0, 1], 2)).all()


def test_the_key_of_a_label_word_is_the_mean_over_its_tokens() -> None:
    keys = torch.tensor([[[1.0, 0], [2, 4], [4, 8], [7, 7]]])  # one head, four tokens
    assert word_keys(keys, [0, 1], [1, 3]).tolist() == [[[1, 0], [3, 6]]]


class Collect:
    """Queries of the last tokens and keys of the label words, from full prompts.

    The first label word has two tokens here.
    """

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self.queries: dict[int, Tensor] = {}
        self.keys: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        self.queries[call.layer] = call.query[torch.arange(len(self._rows)), :, self._rows]
        self.keys[call.layer] = torch.stack(
            [call.key[0][:, [8, 9]].mean(1), call.key[0][:, 18], call.key[0][:, 28]], 1
        )
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value


@pytest.mark.parametrize("family", EVERY_FAMILY)
def test_distances_equal_those_of_full_prompts(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17, 9, 6])
    table = table.with_columns(label_ends=pl.lit([10, 19, 29]))
    measured = measure_confusion(model, table, 2, 20)
    assert measured.schema == frame_schema(CONFUSION)
    full = whole_batch(table)
    plain = Collect(full.target_rows)
    with torch.no_grad(), intervene(plain):
        model(full.input_ids, use_cache=False)
    for layer in range(depth_of(model)):
        states = plain.queries[layer].double().numpy(), plain.keys[layer].double().numpy()
        expected = {
            "concatenated": key_distances(*states, [0, 1, 2], 3, 2),
            "separate": key_distances_by_head(*states, [0, 1, 2], 3),
        }
        for heads, distances in expected.items():
            rows = measured.filter(layer=layer, heads=heads)
            ours = pair_matrix(rows.rename({"distance": "mean"}), 3)
            np.testing.assert_allclose(ours[PAIRS], distances[PAIRS], rtol=1e-4)


@pytest.mark.parametrize("differing", [20, 29])  # before the last label word; its second token
def test_label_words_that_prompts_do_not_share_are_refused(differing: int) -> None:
    table = shared_prompts([5, 5]).with_columns(label_ends=pl.lit([9, 19, 30]))
    ids = table["token_ids"].to_list()
    ids[1][differing] = (ids[1][differing] + 1) % 97
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        measure_confusion(tiny_model("llama"), table.with_columns(token_ids=pl.Series(ids)), 10, 50)
