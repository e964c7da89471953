"""Per head, keys of the smallest norm, in all layers (after Devoto et al. 2024)."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, largest

ANY_BUDGET = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return {
        number: largest(-layer.key[0].float().norm(dim=-1), budget)
        for number, layer in demonstrations.prefix.layers.items()
    }
