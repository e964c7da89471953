"""Accuracy against time in figure and table, also where nothing could be timed."""

import polars as pl
import pytest

from anchorflow.analyses.timing import TIMING
from anchorflow.analyses.timing.plot import accuracy_and_time, plot_timing
from anchorflow.analyses.timing.tabulate import tabulate_timing
from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from constructed.timing import WAYS, retention_of, timings_of


def test_full_prompts_are_as_accurate_as_everything_cached() -> None:
    timing_rows = pl.concat([timings_of("news", 10), timings_of("mine", 30)])
    points = accuracy_and_time(timing_rows, retention_of(["news", "mine"]))
    assert points.height == 3 * len(WAYS)
    plain = points.filter(pl.col("task") == "average", pl.col("way") == "full_prompt")
    assert plain.select("milliseconds", "mean").row(0) == (20, 0.5)
    assert plain["low_time"].to_list() == [None]  # an average of quartiles would be none
    anchors = points.filter(pl.col("task") == "mine", pl.col("way") == "hidden_anchor")
    assert anchors.select("milliseconds", "mean").row(0) == (30 / 4, 0.75)


def test_nothing_timed_is_told() -> None:
    empty = pl.DataFrame(schema=frame_schema(TIMING))
    with pytest.raises(InputError, match="no prompt of the first seed fits"):
        plot_timing(empty, retention_of(["news"]), {}, {}, 0.9, {})


def test_the_table_says_how_many_times_as_fast_as_full_prompts() -> None:
    timing_rows = pl.concat([timings_of("news", 10), timings_of("mine", 30)])
    table = tabulate_timing(timing_rows, retention_of(["news", "mine"])).table
    assert table["times as fast"].to_list() == ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"] * 2
    assert table["break-even (queries)"][0] == "5"
    assert table["ms"][0] == "10 [1, 50]"
    assert table["ms"][2] == "3.33 [1, 50]"
    assert table["accuracy"][0] == "0.50 [0.40, 0.90]"
    assert table["accuracy"][3] == "0.75 [0.40, 0.90]"
