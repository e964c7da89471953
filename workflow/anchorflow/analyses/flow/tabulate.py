"""Shares of the information flows for all models as tables, at five depths."""

from collections.abc import Collection

import polars as pl

from anchorflow.analyses.flow.summarize import FLOWS, MATCHED, RATIOS, SOURCES
from anchorflow.present.page import Page, at_depths, pivoted

_NOTE = (
    "Layers counted from 0, five depths per model; each cell is S / (S_wp + S_pq + S_ww) with its "
    "interval. s_wp: from earlier tokens to label words; s_pq: from label words to the target; "
    "s_ww: all other pairs. results/tables/flow.csv has every layer and the absolute values. "
    "Controls: the same flows with other tokens in place of label words, _text with random tokens "
    "of the texts, _before and _after with the tokens next to label words. Label words compared "
    "with other tokens, per token: target_share_text and target_share_template, the flow from "
    "label words to the target as a share of that and the flow from text, or from template; "
    "into_share, the flow into label words as a share of that and the flow into tokens of the "
    "texts. 0.50: label words are like other tokens. Parts of s_wp by source: text and template of "
    "the label word's demonstration, other label words, the instruction (0 without one), the rest "
    "of earlier demonstrations, and the prompt's first token."
)
_INDEX = ("model", "task", "examples", "texts", "skipped", "layer")


def tabulate_flow(summary: pl.DataFrame) -> Page:
    """Shares of the three flows and of their controls, one row per model, task, and layer."""
    shares = at_depths(summary.filter(scale="proportion"))

    def of(names: Collection[str]) -> pl.DataFrame:
        return pivoted(shares.filter(pl.col("flow").is_in(list(names))), _INDEX, "flow")

    further = {
        "Label words compared with other tokens": of(RATIOS),
        "The same flows at other tokens": of([f"{f}_{name}" for name in MATCHED for f in FLOWS]),
        "Parts of s_wp": of(SOURCES),
    }
    return Page("Shares of the three information flows", _NOTE, of(FLOWS), further)
