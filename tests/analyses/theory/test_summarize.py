"""Means over worlds, and the slope and floor of distances, worked out by hand."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.theory import THEORY_SUMMARY
from anchorflow.analyses.theory.plot import plot_theory
from anchorflow.analyses.theory.summarize import floor, slope, summarize_theory
from anchorflow.analyses.theory.tabulate import tabulate_theory
from anchorflow.schemas.frames import frame_schema
from constructed.theory import KERNELS, measured, summary
from figure_style import figure_of


def test_one_row_per_kernel_number_of_demonstrations_and_measure() -> None:
    table = summary()
    assert table.schema == frame_schema(THEORY_SUMMARY)
    per_kernel = 3 * 4 + 2  # measures by count; slope and floor
    assert len(table) == len(KERNELS) * per_kernel + (len(KERNELS) - 1) * 4  # excess
    assert table["worlds"].unique().to_list() == [3]
    assert table.select("kernel", "ridge", "rank").unique(maintain_order=True).rows() == list(
        KERNELS
    )


def test_intervals_are_student_s_over_worlds() -> None:
    # Distances .58, .60, .62 of three worlds: a deviation of .02, and t of 2 degrees is 2.919986.
    (row,) = (
        summary()
        .filter(kernel="theorem", ridge=1e-6, demonstrations=4, measure="distance")
        .to_dicts()
    )
    assert row["mean"] == pytest.approx(0.6)
    half = 2.919986 * 0.02 / 3**0.5
    assert row["low"] == pytest.approx(0.6 - half, rel=1e-6)
    assert row["high"] == pytest.approx(0.6 + half, rel=1e-6)


def test_other_kernels_are_compared_within_worlds() -> None:
    rows = summary().filter(measure="excess", demonstrations=16)
    excess = {row["kernel"]: row for row in rows.to_dicts() if row["rank"] is None}
    assert "theorem" not in excess
    # The nearest context's is 0 in every world.
    assert (excess["nearest"]["low"], excess["nearest"]["high"]) == (None, None)
    # Half of .33, .35, .37 less: -.165, -.175, -.185.
    half = 2.919986 * 0.01 / 3**0.5
    assert excess["prediction"]["mean"] == pytest.approx(-0.175)
    assert excess["prediction"]["high"] == pytest.approx(-0.175 + half, rel=1e-6)


def test_slope_and_floor_of_lines_are_theirs() -> None:
    counts = (1, 2, 4, 8, 16)
    n = np.array(counts)
    assert slope(3 / n, counts) == pytest.approx(-1)
    assert floor(0.25 + 2 * n**-0.5, counts) == pytest.approx(0.25)
    early = np.where(n < 4, 9.0, 0.25 + 2 * n**-0.5)  # the smaller half does not matter
    assert floor(early, counts) == pytest.approx(0.25)
    both = np.stack([3 / n, n**-0.5])
    assert slope(both, counts) == pytest.approx([-1, -0.5])


def test_floor_and_its_interval_are_of_the_mean_distance() -> None:
    # All distances of a world are shifted alike, and so is its floor: .08, .10, .12.
    (row,) = summary().filter(kernel="theorem", ridge=1e-6, measure="floor").to_dicts()
    half = 2.919986 * 0.02 / 3**0.5
    assert row["demonstrations"] is None
    assert row["mean"] == pytest.approx(0.1)
    assert row["high"] == pytest.approx(0.1 + half, rel=1e-6)


def test_undefined_trends_are_null() -> None:
    single = summarize_theory(measured().filter(demonstrations=4), 0.9)
    trends = single.filter(pl.col("measure").is_in(["slope", "floor"]))
    assert trends["mean"].null_count() == len(trends) == 2 * len(KERNELS)
    exact = summarize_theory(measured().with_columns(distance=0.0), 0.9)
    assert exact.filter(measure="slope")["mean"].null_count() == len(KERNELS)
    assert exact.filter(measure="floor")["mean"].unique().to_list() == [0.0]


def test_shares_have_intervals_within_bounds() -> None:
    wide = measured().with_columns(
        accuracy=pl.col("world") / 2, distance=pl.col("world").cast(pl.Float64)
    )
    rows = summarize_theory(wide, 0.9).filter(kernel="nearest", demonstrations=4)
    ends = {row["measure"]: (row["low"], row["high"]) for row in rows.to_dicts()}
    assert ends["accuracy"] == (0.0, 1.0)
    assert ends["distance"] == (0.0, 2.0)


def test_published_figures_stand_at_the_same_numbers_of_demonstrations() -> None:
    table = summary()
    own = table.filter(kernel="theorem", ridge=1e-6)
    known = {(r["measure"], r["demonstrations"]): r["published"] for r in own.to_dicts()}
    assert known["distance", 1] == 1.322
    assert known["accuracy", 64] == 0.961
    assert known["slope", None] is None  # theirs is over other numbers
    assert table["published"].count() == 2 * 4

    counts = pl.Series([1, 2, 4, 8, 16, 32, 64, 128], dtype=pl.Int32)
    every = measured().filter(demonstrations=1).drop("demonstrations")
    full = every.join(counts.to_frame("demonstrations"), how="cross")
    trends = summarize_theory(full.select(measured().columns), 0.9)
    of_them = trends.filter(measure="slope").drop_nulls("published")
    # Σ (log2 n - 3.5) ln d / (ln 2 · 42) over the published row.
    assert of_them["published"].to_list() == pytest.approx([-0.62984], abs=1e-5)


def test_one_kernel_and_distances_of_0_are_plotted(monkeypatch: pytest.MonkeyPatch) -> None:
    least = measured().filter(kernel="theorem", ridge=1e-6).with_columns(distance=pl.lit(0.0))
    figure_of(monkeypatch, plot_theory, summarize_theory(least, 0.9)).draw_without_rendering()


def test_the_table_has_the_published_row_first_and_trends_and_excess_below() -> None:
    page = tabulate_theory(summary())
    assert page.table.columns == ["kernel", "inverse", "n = 1", "n = 4", "n = 16", "n = 64"]
    assert page.table.row(0) == ("[K], Table 3", "–", "1.32", "0.52", "0.16", "0.09")
    assert page.table["inverse"].to_list()[1:5] == ["ridge 1e-6", "ridge 1e-6", "rank 20", "–"]
    assert page.table.row(1)[3] == "0.60 [0.57, 0.63]"
    assert [title.split()[0] for title in page.further][:3] == ["Accuracy", "Slope", "Distance"]
    accuracy, trend, excess, _ = page.further.values()
    assert trend.columns == ["kernel", "inverse", "slope", "floor"]
    (floor,) = trend.filter(kernel="theorem", inverse="ridge 1e-6")["floor"]
    assert floor == "0.10 [0.07, 0.13]"
    assert excess.filter(kernel="prediction")["n = 16"].to_list() == ["-0.17 [-0.19, -0.16]"]
    assert "theorem" in excess["kernel"].to_list()  # along leading directions
    assert accuracy.row(0)[2:] == ("0.34", "0.74", "0.93", "0.96")
