"""Formatting, and as many random tokens of the texts as label words have ([A] §3.2)."""

from anchorflow.measure.compression_methods import Demonstrations, Kept, everywhere
from anchorflow.prepare.prompts import non_label_positions
from anchorflow.random_draws import generator

ANY_BUDGET = False
RANDOM = True


def choose(shown: Demonstrations, budget: int, draw: int) -> Kept:
    prompt = shown.prompt
    formats = shown.within(set(prompt["format_positions"]))
    anchors = shown.anchors()
    others = shown.within(set(non_label_positions(prompt)) - set(formats))
    draws = generator(prompt["seed"], prompt["task"], "compression", draw)
    count = min(len(others), len(anchors) - len(formats))
    drawn = draws.choice(others, count, replace=False).tolist()
    return everywhere(shown, sorted([*formats, *drawn]))
