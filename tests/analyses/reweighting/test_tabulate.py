"""Table 1: published figures below ours, and skipped prompts behind the accuracy."""

import polars as pl

from anchorflow.analyses.reweighting.summarize import summarize_reweighting
from anchorflow.analyses.reweighting.tabulate import tabulate_reweighting
from constructed.reweighting import ANSWERS, BASELINES, predictions_of, prompts_of


def test_published_figures_stand_below_ours() -> None:
    summary = summarize_reweighting(
        predictions_of("gpt2-xl", "sst2", 1), *prompts_of("gpt2-xl", "sst2", 1), 0.9, BASELINES
    )
    table = tabulate_reweighting(summary).table
    ours = [f"{method} (published)" for method in ("vanilla", "many", "reweighted")]
    assert table["method"][:9].to_list() == [*ANSWERS, *ours]
    assert table.filter(pl.col("method") == "reweighted (published)")["sst2"][0] == "0.90"


def test_skipped_prompts_stand_behind_the_accuracy() -> None:
    summary = summarize_reweighting(
        predictions_of("m", "news", 2, left_out=2),
        *prompts_of("m", "news", 2, left_out=2),
        0.9,
        BASELINES,
    )
    table = tabulate_reweighting(summary).table.filter(pl.col("method") == "many")
    accuracy = table.filter(pl.col("measure") == "accuracy")["news"].item()
    assert accuracy == "1.00 [0.00, 1.00] (2 skipped)"
    assert "skipped" not in table.filter(pl.col("measure") == "macro_f1")["news"].item()
