"""The figure of compressed demonstrations, with every method or one, and what a guess reaches."""

from itertools import pairwise

import polars as pl
import pytest

from anchorflow.analyses.compression.plot import plot_compression
from anchorflow.analyses.compression.styles import LOOKS
from constructed.compression import summary_of_the_paper_s_tasks as summary
from figure_style import figure_of, labels_of, level_of_chance


def of_methods(methods: list[str]) -> pl.DataFrame:
    """The rows of one method, of all these."""
    table = summary().filter(pl.col("share").is_null())
    one = table.filter(method=table["method"][0])
    return pl.concat([one.with_columns(method=pl.lit(method)) for method in methods])


def test_accuracy_stands_beside_that_of_a_guess(monkeypatch: pytest.MonkeyPatch) -> None:
    table = summary()
    figure = figure_of(monkeypatch, plot_compression, table, labels_of(table, 4))
    assert level_of_chance(figure, 3, vertical=True) == 0.25


def test_names_of_many_methods_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    table = of_methods(list(LOOKS))
    figure = figure_of(monkeypatch, plot_compression, table, labels_of(table))
    figure.draw_without_rendering()
    boxes = [name.get_window_extent() for name in figure.axes[0].get_yticklabels()]
    assert len(boxes) == len(LOOKS)
    assert all(above.y0 > below.y1 for above, below in pairwise(boxes))


def test_no_two_methods_look_alike_and_none_is_a_cross() -> None:
    looks = [look[1:] for look in LOOKS.values()]
    assert len(set(looks)) == len(looks)
    assert {look.marker for look in LOOKS.values()}.isdisjoint("xX")
