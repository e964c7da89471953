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
_ANSWERS = {"one": "one", "deranged": "composed,\nwrong words", "composed": "composed"}
_ANSWERS |= {"whole": "all"}
_MEASURES = {
    "explained": "share explained of what heads\ntake from demonstrations",
    "cosine": "cosine with what heads\ntake from demonstrations",
}


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
    with small_multiples(style, 1, 3, title, share=False) as (figure, (panels,)):
        for axes, (measure, name) in zip(panels, _MEASURES.items(), strict=False):
            for order, (kind, legend) in enumerate(_KINDS.items()):
                rows = averaged.filter(kind=kind, measure=measure).sort("layer")
                if kind == "composed":
                    plot_line(axes, rows, style["colors"][0], 0, legend)
                elif len(rows):
                    axes.plot(rows["layer"], rows["mean"], **thin(order - 1), label=legend)
            axes.set_xlabel("layer")
            axes.set_ylabel(name)
        # What is not explained at all may be far below 0, where no difference says anything.
        panels[0].set_ylim(max(-1.0, panels[0].get_ylim()[0]), 1.03)
        of_answers = averaged.filter(measure="log_odds")
        shown = [kind for kind in _ANSWERS if kind in set(of_answers["kind"])]
        for place, kind in enumerate(shown):
            rows = of_answers.filter(kind=kind)
            look: Any = {"fmt": "o", "color": style["colors"][0] if kind == "composed" else "0.3"}
            panels[2].errorbar([place], rows["mean"], yerr=spread(rows), capsize=2, **look)
        panels[2].set_xticks(range(len(shown)), [_ANSWERS[kind] for kind in shown])
        panels[2].set_xlim(-0.5, max(1, len(shown)) - 0.5)
        panels[2].set_xlabel("demonstrations")
        panels[2].set_ylabel("log odds of the true label")
        handle_of = legend_entries(panels[:1])
        legend_below(figure, handle_of.values(), handle_of)
        save(figure, paths)
