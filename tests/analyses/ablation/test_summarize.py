"""Accuracy without heads, areas over the share of heads, and the figure."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.ablation import ABLATION_SUMMARY
from anchorflow.analyses.ablation.plot import plot_ablation
from anchorflow.analyses.ablation.summarize import area_over, summarize_ablation
from anchorflow.schemas.frames import frame_schema
from constructed.heads import ablation
from constructed.interventions import prompts
from figure_style import figure_of, values_of

TAKEN = {
    ("label_copy", False, 0, 0.1): [1, 0],
    ("label_copy", False, 0, 0.2): [0, 0],
    ("label_copy", True, 0, 0.1): [1, 1],
    ("label_copy", True, 1, 0.1): [1, 0],
    ("label_copy", True, 0, 0.2): [1, 1],
    ("label_copy", True, 1, 0.2): [1, 1],
}


def summary() -> pl.DataFrame:
    return summarize_ablation(ablation(TAKEN, [1, 1], [0, 1]), prompts(), 0.95)


def means(control: bool, measure: str) -> dict[float | None, float]:
    rows = summary().filter(task="news", score="label_copy", control=control, measure=measure)
    return dict(rows.select("share", "mean").iter_rows())


def test_draws_are_averaged_and_shares_are_apart() -> None:
    assert summary().schema == frame_schema(ABLATION_SUMMARY)
    assert means(False, "accuracy") == {0.1: 0.5, 0.2: 0.0}
    assert means(True, "accuracy") == {0.1: 0.75, 0.2: 1.0}
    assert means(False, "divergence") == {0.1: 0.5, 0.2: 1.0}
    assert means(True, "accuracy_area") == {None: pytest.approx(0.875)}
    assert means(True, "accuracy_log_area") == {None: pytest.approx(0.875)}
    of_intact = summary().filter(task="news", score="none", measure="accuracy")
    assert of_intact["mean"].item() == 1


def test_an_area_is_the_mean_over_shares_or_their_logarithms() -> None:
    values, shares = np.array([1.0, 0.0, 0.0]), np.array([0.01, 0.1, 1.0])
    # Between .01 and .1, half of it; from there to 1, nothing; both are one decade.
    assert area_over(values, np.log(shares)) == pytest.approx(0.25)
    assert area_over(values, shares) == pytest.approx(0.5 * 0.09 / 0.99)
    assert area_over(np.array([0.3]), np.array([0.1])) == 0.3


def test_the_figure_has_a_line_and_random_heads_for_every_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = figure_of(monkeypatch, plot_ablation, summary())
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [panel.get_title() for panel in panels] == ["label copy", "label copy"]
    taken, random, intact = panels[0].lines
    assert values_of(taken) == [0.5, 0.0]
    assert values_of(random) == [0.75, 1.0]
    assert values_of(intact) == [1.0, 1.0]
