"""How well single demonstrations compose all of them, over depth, and in answers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.present.style import (
    describe,
    legend_below,
    legend_entries,
    plot_line,
    save,
    small_multiples,
    spread,
    thin,
)
from anchorflow.statistics.by_task import AVERAGE

_KINDS = {
    "composed": "single demonstrations, composed",
    "other_query": "before another text",
    "deranged": "with label words of other classes",
}
_ANSWERS = {"one": "one", "deranged": "wrong\nwords", "composed": "com-\nposed", "whole": "all"}


def plot_additivity(
    summary: pl.DataFrame,
    style: Mapping[str, Any],
    confidence: float,
    paths: Mapping[str, str | Path],
) -> None:
    """Plot ``ADDITIVITY_SUMMARY`` for one model, averaged over tasks."""
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("mean").is_not_null())
    title = "Single demonstrations composed, averaged over tasks,\n"
    title += describe(summary, confidence)
    with small_multiples(style, 1, 2, title, share=False) as (figure, (panels,)):
        layers, answers = panels
        for order, (kind, legend) in enumerate(_KINDS.items()):
            rows = averaged.filter(kind=kind, measure="cosine").sort("layer")
            if kind == "composed":
                plot_line(layers, rows, style["colors"][0], 0, legend)
            elif len(rows):
                layers.plot(rows["layer"], rows["mean"], **thin(order - 1), label=legend)
        layers.set_xlabel("layer")
        layers.set_ylabel("cosine with what heads\ntake from all of them")
        of_answers = averaged.filter(measure="log_odds")
        shown = [kind for kind in _ANSWERS if kind in set(of_answers["kind"])]
        for place, kind in enumerate(shown):
            rows = of_answers.filter(kind=kind)
            look: Any = {"fmt": "o", "color": style["colors"][0] if kind == "composed" else "0.3"}
            answers.errorbar([place], rows["mean"], yerr=spread(rows), capsize=2, **look)
        answers.set_xticks(range(len(shown)), [_ANSWERS[kind] for kind in shown])
        answers.set_xlim(-0.5, max(1, len(shown)) - 0.5)
        answers.set_xlabel("demonstrations")
        answers.set_ylabel("log odds of\nthe true label")
        handle_of = legend_entries([layers])
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)
