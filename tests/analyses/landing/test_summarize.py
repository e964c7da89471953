"""Where attention lands, by segment and place, worked out by hand."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.kernel.segments import PLACES, segment_names
from anchorflow.analyses.landing import LANDING_SUMMARY
from anchorflow.analyses.landing.plot import plot_landing, segments_in_order
from anchorflow.analyses.landing.summarize import segment_measures
from anchorflow.analyses.landing.tabulate import tabulate_landing
from anchorflow.model.layer_kinds import by_place
from anchorflow.schemas.fields import SINK
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.by_task import AVERAGE
from constructed.kernel import PAIRS, segmented, summary_with_pairs
from constructed.kernel import landing_summary as summary
from figure_style import figure_of


def test_attention_is_shared_among_segments_and_divided_by_their_tokens() -> None:
    keys, values = segment_measures(segmented())
    first = keys.with_columns(pl.Series("value", values[0])).filter(layer=0)
    of = {(s, m): v for s, m, v in first.select("segment", "measure", "value").iter_rows()}
    assert of["text", "per_token"] == pytest.approx(0.2 / 2 / 10)
    assert of["label", "per_token"] == pytest.approx(0.16 / 2)
    assert of["label", "share"] == pytest.approx(0.4)
    assert of["text", "length"] == pytest.approx(10 / 15)
    assert of["after", "share"] == 0
    assert of["after", "per_token"] != of["after", "per_token"]  # no tokens, no mean


def test_what_sinks_take_is_no_part_of_the_demonstrations(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = segmented()
    sinks = rows.filter(segment="label").with_columns(
        segment=pl.lit(SINK), attention=pl.lit(0.25, pl.Float32), tokens=pl.lit(0, pl.Int32)
    )
    keys, values = segment_measures(pl.concat([rows, sinks]))
    plain, without = segment_measures(rows)
    of_sinks = (keys["segment"] == SINK).fill_null(False)
    assert keys.filter(of_sinks).rows() == [(layer, SINK, "whole") for layer in (0, 1)]
    np.testing.assert_allclose(values[:, of_sinks.to_numpy()], 0.25)
    np.testing.assert_array_equal(values[:, ~of_sinks.to_numpy()], without)
    assert keys.filter(~of_sinks).equals(plain)
    table = summary()
    own = table.filter(pl.col("segment").is_null(), measure="whole")
    shown = pl.concat([table, own.with_columns(segment=pl.lit(SINK))])
    axes = figure_of(monkeypatch, plot_landing, shown).axes
    assert [len(panel.lines) for panel in axes[3:6]] == [2, 2, 2]
    assert tabulate_landing(shown).table.equals(tabulate_landing(table).table)


def test_a_hybrid_has_the_segments_share_of_tokens_too() -> None:
    table = summary()
    hybrid = by_place(table, [2, 5], 6).with_columns(model=pl.lit("hybrid"))
    shown = tabulate_landing(pl.concat([table, hybrid])).table
    assert shown["layer"].to_list() == ["2", "5", "tokens", "0", "1", "tokens"]


def test_summary_has_segments_and_places_of_every_layer() -> None:
    table = summary()
    assert table.schema == frame_schema(LANDING_SUMMARY)
    assert len(table) == 3 * 2 * (5 * 4 + 1 + PLACES)
    places = table.filter(pl.col("task") == AVERAGE, pl.col("place") > 0.9, pl.col("layer") == 1)
    assert places["mean"].to_list() == pytest.approx([0.18, 0.19])
    assert places["segment"].null_count() == 2


def test_the_average_has_the_segments_that_all_tasks_have(monkeypatch: pytest.MonkeyPatch) -> None:
    table = summary_with_pairs()
    rows = table.filter(pl.col("segment").is_not_null(), pl.col("layer") == 0)
    shown = {
        task: of_task["segment"].unique(maintain_order=True).to_list()
        for (task,), of_task in rows.group_by("task")
    }
    assert shown["news"] == segment_names(["text"])
    assert segments_in_order(table.filter(task="reviews")) == segment_names(PAIRS)
    assert shown[AVERAGE] == ["before_label", "label", "after"]
    share = rows.filter(measure="share", segment="label")
    means = dict(share.select("task", "mean").iter_rows())
    assert means["news"] == pytest.approx(0.4)
    assert means["reviews"] == pytest.approx(0.24 / 0.5)
    assert means[AVERAGE] == pytest.approx((0.4 + 0.48) / 2)
    whole = dict(table.filter(measure="whole", layer=0).select("task", "mean").iter_rows())
    assert whole["reviews"] == pytest.approx(0.5 / 0.4 * whole["news"])
    assert whole[AVERAGE] == pytest.approx((whole["news"] + whole["reviews"]) / 2)
    assert table.filter(pl.col("place").is_not_null()).height == 3 * 2 * PLACES
    assert len(figure_of(monkeypatch, plot_landing, table).axes) == 3 * 3 + 1  # and a color bar


def test_the_table_has_a_row_per_layer_and_one_of_tokens() -> None:
    rows = tabulate_landing(summary()).table
    assert rows["layer"].to_list() == ["0", "1", "tokens"]
    assert rows["label"][0].startswith("0.40 [")
    assert rows["text"][2].startswith("0.67 [")
