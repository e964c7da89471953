"""Formatting and all tokens of label words ([A] §3.2)."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere

ANY_BUDGET = False


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(demonstrations, demonstrations.anchors())
