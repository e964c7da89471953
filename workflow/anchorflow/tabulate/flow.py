"""The flow summaries of all models, at five depths."""

from collections.abc import Collection

import polars as pl

from anchorflow.summarize.flow import FLOWS, MATCHED, RATIOS, SOURCES
from anchorflow.tabulate.page import Page, at_depths, pivoted

_NOTE = (
    "Layers counted from 0, five depths per model; each cell is S / (S_wp + S_pq + "
    "S_ww) with its interval. s_wp: to label words, s_pq: label words "
    "to target, s_ww: all other pairs. results/tables/flow.csv has every layer and "
    "the absolute values. Controls: the same flows with other tokens in place of label words, "
    "_text for random tokens of the texts, _before and _after for the tokens next to label words. "
    "Label words against other tokens, per token: target_share_text and target_share_template, "
    "what the target takes from label words, against text and against template; into_share, what "
    "label words take from each earlier token, against tokens of the texts. 0.50 is what label "
    "words like any other token have. Parts of s_wp: what label words take from their own text, "
    "own template, other label words, the instruction (0 without one), the rest of earlier "
    "demonstrations, and the prompt's first token."
)
_INDEX = ("model", "task", "examples", "skipped", "layer")


def tabulate_flow(flow: pl.DataFrame) -> Page:
    """Shares of the three flows, then their controls, one row per model, task, and layer."""
    shares = at_depths(flow.filter(pl.col("scale") == "proportion"))

    def of(names: Collection[str]) -> pl.DataFrame:
        return pivoted(shares.filter(pl.col("flow").is_in(list(names))), _INDEX, "flow")

    further = {
        "Label words against other tokens": of(RATIOS),
        "The same flows at other tokens": of([f"{f}_{name}" for name in MATCHED for f in FLOWS]),
        "Parts of s_wp": of(SOURCES),
    }
    return Page("Shares of the three information flows", _NOTE, of(FLOWS), further)
