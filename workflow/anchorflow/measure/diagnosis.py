"""Distances between the keys of label words, to predict which labels are confused ([A] §3.3).

If the keys of two label words are close from the target's perspective, it attends to both alike,
and the model should confuse the two classes. This perspective is given by the directions in which
the target's queries vary between texts: their principal components, scaled by singular values.

In the first layer the target is the same token in every prompt, so its queries vary only with its
position; with rotary positions, prompt length adds to the variation in later layers too. Keys
beyond a layer's sliding window are treated like all others.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, intervene
from anchorflow.model.batches import Batch, Budget, run_batches, runnable
from anchorflow.model.language_model import check_finite
from anchorflow.model.last_tokens import keep_all_but_last
from anchorflow.model.prefix import compute_prefix, shared_token_ids
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


def key_distances(queries: Array, keys: Array, labels: Sequence[int], classes: int) -> Array:
    """Distances between classes in one layer, along the directions of the target's queries.

    Per head, keys k are projected on the principal components v_m of the queries and scaled by the
    singular values σ_m. A squared distance is then Σ_m (σ_m v_m·(k - k'))² = (k - k')ᵀ S (k - k'),
    where S is the scatter matrix of the queries. Squared distances are summed over heads.

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

    Returns
    -------
    Array
        [C, C], symmetric: the mean distance over pairs of demonstrations of the two classes,
        divided by the largest. NaN on the diagonal, for classes without demonstrations, and
        everywhere if the queries do not vary.

    Source: Wang et al. 2023, §3.3 and eq. 11.
    """
    unknown = np.full((classes, classes), np.nan)
    centered = queries - queries.mean(0)
    if np.abs(centered).max() <= 1e-6 * np.abs(queries).max():
        return unknown
    scatter = np.einsum("bhd,bhe->hde", centered, centered)
    of_head = np.repeat(keys, queries.shape[1] // keys.shape[0], axis=0)  # [H, N, D]
    inner = np.einsum("hnd,hde,hme->nm", of_head, scatter, of_head, optimize=True)
    norms = np.diagonal(inner)
    between = np.sqrt(np.maximum(norms[:, None] + norms[None] - 2 * inner, 0))  # [N, N]
    for a, b in combinations(range(classes), 2):
        pair = between[np.ix_(np.equal(labels, a), np.equal(labels, b))]
        if pair.size:
            unknown[a, b] = unknown[b, a] = pair.mean()
    largest = np.nanmax(unknown, initial=0.0)
    distances: Array = unknown / largest if largest > 0 else unknown
    return distances


@torch.no_grad()
def measure_diagnosis(
    model: PreTrainedModel, prompts: pl.DataFrame, batch_tokens: int
) -> pl.DataFrame:
    """Distances between every two classes in every layer, over all runnable test texts.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed.
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
    if max(chosen["label_positions"][0]) >= prefix.tokens:
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
    classes = len(prompt["label_tokens"])
    rows = []
    for layer, kept in prefix.layers.items():
        queries = torch.cat([part[layer] for part in parts]).numpy()
        keys = kept.key[0][:, prompt["label_positions"]].double().cpu().numpy()
        distances = key_distances(queries, keys, prompt["demonstration_labels"], classes)
        rows += [
            {"layer": layer, "label": a, "other": b, "distance": distances[a, b]}
            for a, b in combinations(range(classes), 2)
        ]
    keys_of_cell = chosen.select("model", "task", "seed").row(0, named=True)
    measured = pl.DataFrame(rows).with_columns(pl.col("distance").fill_nan(None))
    return keyed(measured.sort("layer", "label", "other"), keys_of_cell, DIAGNOSIS)
