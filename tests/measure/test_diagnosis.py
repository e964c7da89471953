"""Key distances by hand and from eager queries and keys."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from anchorflow.config.errors import InputError
from anchorflow.measure.diagnosis import key_distances, measure_diagnosis
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.plot.confusion import pair_matrix
from anchorflow.schemas.diagnosis import DIAGNOSIS
from anchorflow.schemas.frames import frame_schema
from tiny_models import FAMILIES, full_attention, shared_prompts, tiny_model, whole_batch


def test_distances_count_only_directions_in_which_queries_vary() -> None:
    queries = np.zeros((4, 1, 3))
    queries[:, 0, 0] = [1, -1, 3, -3]  # one principal component, along the first axis
    queries[:, 0, 2] = 7  # all alike there
    keys = np.array([[[0.0, 5, 1], [1, 9, 2], [4, 0, 3]]])  # one key head, three label words
    distances = key_distances(queries, keys, [0, 1, 2], 3)
    np.testing.assert_allclose(distances[PAIRS], [1 / 4, 4 / 4, 3 / 4])
    assert np.isnan(np.diagonal(distances)).all()


def test_distances_are_those_along_scaled_principal_components() -> None:
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
        key_distances(queries, keys, [0, 1, 2], 3)[PAIRS], plain / plain.max()
    )


def test_several_demonstrations_of_a_label_count_by_their_mean_distance() -> None:
    queries = np.array([[[1.0]], [[-1.0]]])
    keys = np.array([[[0.0], [1.0], [2.0], [4.0]]])
    distances = key_distances(queries, keys, [0, 1, 0, 2], 3)
    np.testing.assert_allclose(distances[0, 1] / distances[0, 2], ((1 + 1) / 2) / ((4 + 2) / 2))


def test_a_label_without_demonstration_has_no_distance() -> None:
    queries = np.array([[[1.0]], [[-1.0]]])
    distances = key_distances(queries, np.array([[[0.0], [1.0], [3.0]]]), [0, 2, 3], 5)
    assert np.isnan(distances[[1, 4]]).all()
    np.testing.assert_allclose(distances[0, [2, 3]], [1 / 3, 1])


@pytest.mark.parametrize("shift", [0.0, 1e-9])
def test_keys_that_no_query_tells_apart_have_no_distance(shift: float) -> None:
    queries = np.ones((3, 1, 2)) + shift * np.arange(3)[:, None, None]
    assert np.isnan(key_distances(queries, np.eye(2)[None], [0, 1], 2)).all()


PAIRS = np.triu_indices(3, 1)


class Collect:
    """Queries of the last tokens and keys of the label words, from full prompts."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self.queries: dict[int, Tensor] = {}
        self.keys: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, _: Attention) -> Tensor:
        scores, hidden, value = full_attention(call)
        self.queries[call.layer] = call.query[torch.arange(len(self._rows)), :, self._rows]
        self.keys[call.layer] = call.key[0][:, [8, 18, 28]]
        return scores.masked_fill(hidden, -torch.inf).softmax(-1) @ value


@pytest.mark.parametrize("family", FAMILIES)
def test_distances_equal_those_of_full_prompts(family: str) -> None:
    model, table = tiny_model(family), shared_prompts([5, 17, 9, 6])
    measured = measure_diagnosis(model, table, 20)
    assert measured.schema == frame_schema(DIAGNOSIS)
    full = whole_batch(table)
    plain = Collect(full.target_rows)
    with torch.no_grad(), intervene(plain):
        model(full.input_ids, use_cache=False)
    for layer in range(model.config.num_hidden_layers):
        expected = key_distances(
            plain.queries[layer].double().numpy(), plain.keys[layer].double().numpy(), [0, 1, 2], 3
        )
        rows = measured.filter(pl.col("layer") == layer)
        ours = pair_matrix(rows.rename({"distance": "mean"}), 3)
        np.testing.assert_allclose(ours[PAIRS], expected[PAIRS], rtol=1e-4)


def test_label_words_that_prompts_do_not_share_are_refused() -> None:
    table = shared_prompts([5, 5])
    ids = table["token_ids"].to_list()
    ids[1][20] = (ids[1][20] + 1) % 97
    with pytest.raises(InputError, match=r"tasks.news.template: its queries begin differently"):
        measure_diagnosis(tiny_model("llama"), table.with_columns(token_ids=pl.Series(ids)), 50)
