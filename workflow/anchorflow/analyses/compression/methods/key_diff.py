"""Per head, keys whose direction is least like their mean (after KeyDiff, Park et al. 2025)."""

from torch.nn.functional import normalize

from anchorflow.analyses.compression.methods import Demonstrations, Kept, largest

ANY_BUDGET = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    kept = {}
    for number, layer in demonstrations.prefix.layers.items():
        directions = normalize(layer.key[0].float(), dim=-1)  # [G, P, D]
        mean = normalize(directions.mean(1, keepdim=True), dim=-1)
        kept[number] = largest(-(directions * mean).sum(-1), budget)
    return kept
