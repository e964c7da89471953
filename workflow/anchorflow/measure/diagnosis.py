"""Distances between the keys of label words, to predict which labels are confused ([A] §3.3).

If the keys of two label words are close from the target's perspective, it attends to both alike,
and the model should confuse the two classes. This perspective is given by the directions in which
the target's queries vary between texts: their principal components, scaled by singular values.

The paper takes keys and queries of all heads as one vector, and the leading components alone (its
code: ten, since what little the queries vary along others is noise). Distances within each head,
along all of its components, stand beside these. The key of a label word of several tokens is the
mean over its tokens.

In the first layer the target is the same token in every prompt, so its queries vary only with its
position; with rotary positions, prompt length adds to the variation in later layers too. Keys
beyond a layer's sliding window are treated like all others.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import torch
from scipy.linalg import eigh
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import Batch, Budget, run_batches, runnable
from anchorflow.model.language_model import check_finite
from anchorflow.model.last_tokens import keep_all_but_last
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import token_groups
from anchorflow.schemas.diagnosis import DIAGNOSIS
from anchorflow.schemas.frames import frame_schema, keyed


class RecordQueries:
    """The intervention that records the queries of the last tokens."""

    def __init__(self) -> None:
        self.queries: dict[int, Tensor] = {}  # layer to [B, H, D]

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Record the queries of one layer; its output is unchanged."""
        self.queries[call.layer] = call.query[:, :, -1].double().cpu()
        return attention(call)


def key_distances(
    queries: Array, keys: Array, labels: Sequence[int], classes: int, components: int
) -> Array:
    """Distances between classes in one layer, along the leading directions of the target's queries.

    Keys and queries of all heads are concatenated to one vector per position; a key head counts
    once for every query head that shares it. Keys k are projected on the first principal components
    v_m of the queries and scaled by the singular values σ_m. With centered queries X = Σ_m u_m σ_m
    v_mᵀ, a coordinate is σ_m v_m·k = u_m·(X k), where u_m are the eigenvectors of X Xᵀ.

    Parameters
    ----------
    queries : [B, H, D]
        Queries of the target position.
    keys : [G, N, D]
        Keys of the label words.
    labels : sequence of int, N
        Label of each demonstration.
    classes : int
        C.
    components : int
        Largest number of components; fewer are used where the queries have a lower rank.

    Returns
    -------
    Array
        [C, C] as ``between_classes`` gives it; all NaN if the queries do not vary.

    Source: Wang et al. 2023, §3.3 and eq. 11; components as in App. J and the authors' code.
    """
    centered = queries - queries.mean(0)
    if np.abs(centered).max() <= 1e-6 * np.abs(queries).max():
        return np.full((classes, classes), np.nan)
    texts = len(queries)
    rows = centered.reshape(texts, -1)  # [B, H·D]
    columns = _of_query_heads(queries, keys).swapaxes(0, 1).reshape(keys.shape[1], -1)  # [N, H·D]
    _, leading = eigh(rows @ rows.T, subset_by_index=[max(0, texts - components), texts - 1])
    scaled = columns @ rows.T @ leading  # [N, components]
    return between_classes(scaled @ scaled.T, labels, classes)


def key_distances_by_head(
    queries: Array, keys: Array, labels: Sequence[int], classes: int
) -> Array:
    """As ``key_distances``, with all components of each head by itself.

    Squared distances within a head, Σ_m (σ_m v_m·(k - k'))² = (k - k')ᵀ S (k - k') with the scatter
    matrix S of its queries, are summed over heads.
    """
    centered = queries - queries.mean(0)
    if np.abs(centered).max() <= 1e-6 * np.abs(queries).max():
        return np.full((classes, classes), np.nan)
    scatter = np.einsum("bhd,bhe->hde", centered, centered)
    of_head = _of_query_heads(queries, keys)
    inner = np.einsum("hnd,hde,hme->nm", of_head, scatter, of_head, optimize=True)
    return between_classes(inner, labels, classes)


def _of_query_heads(queries: Array, keys: Array) -> Array:
    """Keys [G, N, D] as [H, N, D], repeated for the query heads that share them."""
    repeated: Array = np.repeat(keys, queries.shape[1] // keys.shape[0], axis=0)
    return repeated


def between_classes(inner: Array, labels: Sequence[int], classes: int) -> Array:
    """Mean Euclidean distances between the demonstrations of every two classes.

    Parameters
    ----------
    inner : [N, N]
        Inner products of the keys, one of each demonstration.

    Returns
    -------
    Array
        [C, C], symmetric: the mean distance over pairs of demonstrations of the two classes,
        divided by the largest. NaN on the diagonal and for classes without demonstrations.
    """
    means = np.full((classes, classes), np.nan)
    norms = np.diagonal(inner)
    between = np.sqrt(np.maximum(norms[:, None] + norms[None] - 2 * inner, 0))  # [N, N]
    for a, b in combinations(range(classes), 2):
        pair = between[np.ix_(np.equal(labels, a), np.equal(labels, b))]
        if pair.size:
            means[a, b] = means[b, a] = pair.mean()
    largest = np.nanmax(means, initial=0.0)
    distances: Array = means / largest if largest > 0 else np.full_like(means, np.nan)
    return distances


def between_groups(distances: Array, groups: Sequence[int]) -> Array:
    """Distances without those between labels that share their first token.

    The target predicts that token, so that its perspective tells nothing of them.

    Parameters
    ----------
    distances : [C, C]
        From :func:`between_classes`.
    groups : sequence of int, C
        From :func:`~anchorflow.prepare.prompts.token_groups`.

    Returns
    -------
    Array
        [C, C], divided by the largest that is left; NaN within a group.
    """
    others: Array = np.where(np.equal.outer(groups, groups), np.nan, distances)
    largest = np.nanmax(others, initial=0.0)
    return others / largest if largest > 0 else others


def word_keys(keys: Tensor, starts: Sequence[int], ends: Sequence[int]) -> Array:
    """Mean key over the tokens of each label word.

    Parameters
    ----------
    keys : [G, T, D]
    starts, ends : sequence of int, N
        First token of each label word, and the token after its last.

    Returns
    -------
    Array
        [G, N, D], float64.
    """
    words = [keys[:, start:end].double().mean(1) for start, end in zip(starts, ends, strict=True)]
    return torch.stack(words, 1).cpu().numpy()


def cost(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every text once, after shared demonstrations."""
    return Cost(prompts.once)


@torch.no_grad()
def measure_diagnosis(
    model: PreTrainedModel, prompts: pl.DataFrame, components: int, batch_tokens: int
) -> pl.DataFrame:
    """Distances between every two classes in every layer, over all runnable test texts.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed.
    components : int
        Largest number of principal components of the heads taken together.
    batch_tokens : int
        Upper bound on query tokens per batch; does not affect the results.

    Returns
    -------
    DataFrame
        Columns of ``DIAGNOSIS``.

    Raises
    ------
    InputError
        If the prompts do not share their label words, or logits are not finite.
    """
    chosen = runnable(prompts, "fixed")
    if chosen.is_empty():
        return pl.DataFrame(schema=frame_schema(DIAGNOSIS))
    prefix = compute_prefix(model, shared_token_ids(chosen))
    if max(chosen["label_ends"][0]) > prefix.tokens:
        raise InputError(
            f"tasks.{chosen['task'][0]}.template: its queries begin differently from one another, "
            "so that label words have no common keys; begin it with a word."
        )

    def measure(batch: Batch) -> dict[int, Tensor]:
        tokens, recorded = keep_all_but_last(model, batch, prefix), RecordQueries()
        with intervene(tokens, recorded):
            check_finite(tokens.logits(model), tokens.examples)
        return recorded.queries

    batches = run_batches(chosen, Budget(batch_tokens), model.device, measure, prefix.tokens)
    parts = [queries for _, queries in batches]
    prompt = chosen.row(0, named=True)
    groups = token_groups(prompt["label_tokens"])
    classes, rows = len(groups), []
    for layer, kept in prefix.layers.items():
        queries = torch.cat([part[layer] for part in parts]).numpy()
        keys = word_keys(kept.key[0], prompt["label_positions"], prompt["label_ends"])
        labels = prompt["demonstration_labels"]
        of_heads = {
            "concatenated": key_distances(queries, keys, labels, classes, components),
            "separate": key_distances_by_head(queries, keys, labels, classes),
        }
        rows += [
            {"heads": heads, "layer": layer, "label": a, "other": b, "distance": distances[a, b]}
            for heads, of_all in of_heads.items()
            for distances in [between_groups(of_all, groups)]
            for a, b in combinations(range(classes), 2)
        ]
    keys_of_cell = chosen.select("model", "task", "seed").row(0, named=True)
    measured = pl.DataFrame(rows).with_columns(pl.col("distance").fill_nan(None))
    return keyed(measured.sort("heads", "layer", "label", "other"), keys_of_cell, DIAGNOSIS)
