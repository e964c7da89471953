"""Table 2: published figures below ours."""

import polars as pl

from anchorflow.analyses.compression.tabulate import tabulate_compression
from constructed.compression import summary_of_the_paper_s_tasks


def test_published_figures_stand_below_ours() -> None:
    table = tabulate_compression(summary_of_the_paper_s_tasks()).table
    anchor = table.filter(pl.col("method") == "hidden_anchor (published)")
    assert anchor.select("label_loyalty", "accuracy").row(0) == ("0.89", "0.56")
