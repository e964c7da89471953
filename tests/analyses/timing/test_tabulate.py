"""The table of accuracy and time per query."""

import polars as pl

from anchorflow.analyses.timing.tabulate import tabulate_timing
from constructed.timing import retention_of, timings_of


def test_the_table_says_how_many_times_as_fast_as_full_prompts() -> None:
    timing_rows = pl.concat([timings_of("news", 10), timings_of("mine", 30)])
    table = tabulate_timing(timing_rows, retention_of(["news", "mine"])).table
    assert table["times as fast"].to_list() == ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"] * 2
    assert table["break-even (queries)"][0] == "5"
    assert table["ms"][0] == "10 [1, 50]"
    assert table["ms"][2] == "3.33 [1, 50]"
    assert table["accuracy"][0] == "0.50 [0.40, 0.90]"
    assert table["accuracy"][3] == "0.75 [0.40, 0.90]"
