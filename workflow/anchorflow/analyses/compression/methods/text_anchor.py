"""What hidden_anchor keeps, as a separate text ([A] §3.2)."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere

ANY_BUDGET = False
AS_TEXT = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    return everywhere(demonstrations, demonstrations.anchors())
