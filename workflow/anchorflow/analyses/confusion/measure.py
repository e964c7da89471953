"""Distances between the keys of label words, to predict which labels are confused ([A] §3.3).

The target attends alike to label words whose keys are close along the directions in which its
queries vary between texts, and the model should then confuse the two classes. These directions are
the principal components of the queries, scaled by their singular values.

The paper takes keys and queries of all heads as one vector and only the leading components (its
code: ten; the little variation of the queries along others is noise). Distances within each head,
along all of its components, are measured as well. The key of a label word is the mean over its
tokens.

In the first layer, the target is the same token in every prompt, so its queries vary only with its
position; with rotary position embeddings, prompt length adds to the variation in later layers too.
Keys beyond a layer's sliding window are treated like all others.
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

from anchorflow.analyses.confusion import CONFUSION
from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import keep_all_but_last
from anchorflow.model.logits import check_finite
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.tokenizer import token_groups
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS


class RecordQueries:
    """The intervention that records the queries of each prompt's last token."""

    def __init__(self) -> None:
        self.queries: dict[int, Tensor] = {}  # layer to [B, H, D]

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Record the queries of one layer; its output, [B, H, T, D], is unchanged."""
        self.queries[call.layer] = call.query[:, :, -1].double().cpu()
        return attention(call)


def key_distances(
    queries: Array, keys: Array, labels: Sequence[int], classes: int, components: int
) -> Array:
    """Distances between classes in one layer, along the leading directions of the target's queries.

    Keys and queries of all heads are concatenated into one vector per position; a key head counts
    once for every query head that shares it. Keys k are projected onto the leading principal
    components v_m of the queries and scaled by the singular values σ_m. With centered queries
    X = Σ_m u_m σ_m v_mᵀ, a coordinate is σ_m v_m·k = u_m·(X k), where u_m are eigenvectors of X Xᵀ.

    ``queries``, [B, H, D], are those of the target, and ``keys``, [G, N, D], those of the label
    words. Where the queries have a lower rank, fewer ``components`` are used. The distances are
    those of :func:`between_classes`, [C, C], and all NaN if the queries do not vary.

    Source: Wang et al. 2023, §3.3 and eq. 11; components as in App. J and the authors' code.
    """
    centered = queries - queries.mean(0)
    # Queries of identical tokens differ by rounding alone, which has no principal components.
    if np.abs(centered).max() <= 1e-6 * np.abs(queries).max():
        return np.full((classes, classes), np.nan)
    texts = len(queries)
    rows = centered.reshape(texts, -1)  # [B, H·D]
    columns = _of_query_heads(queries, keys).swapaxes(0, 1).reshape(keys.shape[1], -1)  # [N, H·D]
    # Of X Xᵀ [B, B], which is smaller than XᵀX; eigenvalues increase, so the last are the largest.
    _, leading = eigh(rows @ rows.T, subset_by_index=[max(0, texts - components), texts - 1])
    scaled = columns @ rows.T @ leading  # [N, components]
    return between_classes(scaled @ scaled.T, labels, classes)


def key_distances_by_head(
    queries: Array, keys: Array, labels: Sequence[int], classes: int
) -> Array:
    """Distances as in :func:`key_distances`, along all components of each head separately.

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
    """Keys [G, N, D], repeated for the query heads that share them: [H, N, D]."""
    repeated: Array = np.repeat(keys, queries.shape[1] // keys.shape[0], axis=0)
    return repeated


def between_classes(inner: Array, labels: Sequence[int], classes: int) -> Array:
    """Mean Euclidean distances between the demonstrations of every two classes.

    ``inner``, [N, N], are the inner products of the keys, one key per demonstration. The result,
    [C, C], is symmetric and dimensionless: the mean distance over pairs of demonstrations of the
    two classes, divided by the largest such mean. It is NaN on the diagonal and for classes without
    demonstrations.
    """
    means = np.full((classes, classes), np.nan)
    norms = np.diagonal(inner)
    # Rounding can make the squared distance of equal keys negative.
    between = np.sqrt(np.maximum(norms[:, None] + norms[None] - 2 * inner, 0))  # [N, N]
    for a, b in combinations(range(classes), 2):
        pair = between[np.ix_(np.equal(labels, a), np.equal(labels, b))]
        if pair.size:
            means[a, b] = means[b, a] = pair.mean()
    largest = np.nanmax(means, initial=0.0)
    distances: Array = means / largest if largest > 0 else np.full_like(means, np.nan)
    return distances


def between_groups(distances: Array, groups: Sequence[int]) -> Array:
    """Distances, without those between labels that share their first token.

    The target predicts first tokens, so its queries cannot separate these labels. What remains is
    divided by the largest of it; [C, C], NaN within a group.
    """
    others: Array = np.where(np.equal.outer(groups, groups), np.nan, distances)
    largest = np.nanmax(others, initial=0.0)
    return others / largest if largest > 0 else others


def word_keys(keys: Tensor, starts: Sequence[int], ends: Sequence[int]) -> Array:
    """Mean key over the tokens of each label word.

    Given the keys [G, T, D] of one layer, the result is [G, N, D], float64. ``ends`` are the tokens
    after each label word's last.
    """
    words = [keys[:, start:end].double().mean(1) for start, end in zip(starts, ends, strict=True)]
    return torch.stack(words, 1).cpu().numpy()


def cost(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every test text once, after the shared demonstrations."""
    return Cost(prompts.once)


@torch.no_grad()
def measure_confusion(
    model: PreTrainedModel, prompts: pl.DataFrame, components: int, batch_tokens: int
) -> pl.DataFrame:
    """Distances between every two classes in every layer, from the queries of all test texts.

    Prompts that exceed the model's context are left out.
    """
    chosen = runnable(prompts, "fixed")
    if chosen.is_empty():
        return pl.DataFrame(schema=frame_schema(CONFUSION))
    prefix = compute_prefix(model, shared_token_ids(chosen))
    if max(chosen["label_ends"][0]) > prefix.tokens:
        raise InputError(
            f"tasks.{chosen['task'][0]}.template: its queries begin differently from one another, "
            "so that the label words have no keys in common; begin it with a word."
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
    return keyed(measured.sort("heads", "layer", "label", "other"), keys_of_cell, CONFUSION)


def measure(cell: Cell) -> None:
    spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
    prompts = among(prompts, cell.examples(prompts))
    model = cell.model(runnable(prompts, "fixed"), cost)
    confusion = measure_confusion(model, prompts, spec["components"], cell.batch_tokens)
    cell.write(CONFUSION, confusion, cell.described(confusion=spec))
