"""Formatting, and equally many random tokens of the texts in place of label words ([A] §3.2)."""

from anchorflow.analyses.compression.methods import Demonstrations, Kept, everywhere
from anchorflow.prepare.positions import non_label_positions
from anchorflow.random_draws import generator

ANY_BUDGET = False
RANDOM = True


def choose(demonstrations: Demonstrations, budget: int, draw: int) -> Kept:
    prompt = demonstrations.prompt
    formats = demonstrations.within(set(prompt["format_positions"]))
    anchors = demonstrations.anchors()
    others = demonstrations.within(set(non_label_positions(prompt)) - set(formats))
    draws = generator(prompt["seed"], prompt["task"], "compression", draw)
    count = min(len(others), len(anchors) - len(formats))
    drawn = draws.choice(others, count, replace=False).tolist()
    return everywhere(demonstrations, sorted([*formats, *drawn]))
