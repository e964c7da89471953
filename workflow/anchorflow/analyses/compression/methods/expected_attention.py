"""Per head, keys to which coming queries should attend most (after Devoto et al. 2025).

Expected Attention is that under a normal distribution of queries with the mean and covariance of
the demonstrations' queries, turned to the average of the next 512 positions. A key's score is this
attention times the norm of its value. The first four tokens are always kept, and do not share in
the softmax.
"""

import torch
from torch.nn.functional import pad

from anchorflow.analyses.compression.methods import (
    SINKS,
    Demonstrations,
    Kept,
    largest,
    sinks_first,
)

ANY_BUDGET = True
QUERIES = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    kept = {}
    for number, layer in demonstrations.prefix.layers.items():
        key, value = layer.key[0, :, SINKS:].float(), layer.value[0, :, SINKS:].float()
        mean, covariance = (
            of.unflatten(0, (len(key), -1)) for of in demonstrations.queries[number]
        )
        spread = torch.einsum("gpd,grde,gpe->grp", key, covariance, key) / 2
        expected = (torch.einsum("grd,gpd->grp", mean, key) + spread).softmax(-1)
        scores = expected.mean(1) * value.norm(dim=-1)
        kept[number] = largest(sinks_first(pad(scores, (SINKS, 0))), budget)
    return kept
