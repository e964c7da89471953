"""What probes decode, averaged, and gained over their control."""

import polars as pl
import pytest

from anchorflow.measure.probes import measure_probes
from anchorflow.schemas.decoding import DECODING
from anchorflow.schemas.frames import frame_schema
from anchorflow.summarize.by_task import AVERAGE
from anchorflow.summarize.decoding import summarize_decoding
from constructed.decoding import summary, summary_of_nothing
from constructed.kernel import prompts
from constructed.probes import states


def test_summary_averages_and_gains_over_chance() -> None:
    table = summary()
    assert table.schema == frame_schema(DECODING)
    assert len(table) == 3 * 2 * 2 * 2 * 3  # tasks, offsets, sources, targets, measures
    rows = table.filter(
        pl.col("task") == AVERAGE,
        pl.col("offset") == 0,
        pl.col("source") == "value",
        pl.col("target") == "label",
    )
    values = dict(rows.select("measure", "mean").iter_rows())
    assert values["accuracy"] == 1.0
    assert values["gain"] == pytest.approx(1.0 - values["shuffled"])
    assert rows["decoded"].to_list() == [48] * 3


def test_demonstrations_missing_at_an_offset_do_not_count_there() -> None:
    last_gone = states().filter((pl.col("offset") == -1) | (pl.col("demonstration") < 11))
    table = summarize_decoding(measure_probes(last_gone, 0.01), prompts(("news",)), 100, 0.9)
    rows = table.filter(
        pl.col("task") == "news",
        pl.col("offset") == 0,
        pl.col("source") == "value",
        pl.col("target") == "label",
        pl.col("measure") == "accuracy",
    )
    assert rows["mean"].to_list() == [1.0]
    assert rows["decoded"].to_list() == [11]


def test_nothing_to_decode_leaves_no_rows() -> None:
    assert summary_of_nothing().is_empty()
