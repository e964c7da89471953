"""Figures of claims: every verdict, and marks of control and untrained network."""

from pathlib import Path

import matplotlib.pyplot as plt
import polars as pl
import pytest
from matplotlib.axes import Axes

from anchorflow.claims.plot import legend_of_verdicts, plot_claims, plot_effect
from constructed.verdicts import DECIDED, claims_table
from figure_style import STYLE, figure_of


def marks(claim: str) -> dict[str, list[float]]:
    """Where each marker of one claim's line lies."""
    figure, axes = plt.subplots()
    axes.set_xlim(-1.05, 1.05)
    plot_effect(axes, claims_table(decided={claim: DECIDED[claim]}), 0, STYLE)
    found = marks_of(axes)
    plt.close(figure)
    return found


def marks_of(axes: Axes) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in axes.lines:
        found.setdefault(str(line.get_marker()), []).extend(map(float, line.get_xdata()))
    return found


@pytest.mark.parametrize("claim", list(DECIDED))
def test_the_figure_takes_every_verdict(claim: str, tmp_path: Path) -> None:
    decided = {
        name: DECIDED[name] for name in (claim, "flow_early", "anchors_faster_than_full_cache")
    }
    plot_claims(claims_table(decided=decided), STYLE, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 5000


@pytest.mark.parametrize(("asked", "inches"), [(4.0, 4.0), (9.0, 6.8)])
def test_the_figure_is_no_wider_than_asked_for_or_a_page(
    asked: float, inches: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = claims_table(decided={"flow_early": DECIDED["flow_early"]})
    figure = figure_of(monkeypatch, plot_claims, table, style={**STYLE, "width": asked})
    assert figure.get_figwidth() == pytest.approx(inches)


def test_control_and_untrained_network_stand_beside_the_effect() -> None:
    # A dot for the task, a line for the interval, and a mark for each of the three.
    assert marks("flow_early") == {
        ".": [0.5],
        "None": [0.25, 0.75],
        "o": [0.5],
        "|": [0.125],
        "x": [0.0],
    }
    assert marks("flow_late")["P"] == [0.5]
    assert marks("flow_late")["x"] == [0.75]
    assert marks("flow_into_label_words") == {".": [0.25], "None": [-0.125, 0.625], "D": [0.25]}


def test_what_lies_outside_is_an_arrow_at_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("flow_early", "anchors_faster_than_full_cache")
    table = claims_table(decided={name: DECIDED[name] for name in names})
    outside = pl.when(claim="flow_early").then(pl.lit(-1.5)).otherwise(pl.col("effect"))
    figure = figure_of(monkeypatch, plot_claims, table.with_columns(effect=outside))
    shares, times = (panel for panel in figure.axes if panel.get_xlabel())
    assert set(marks_of(shares)["<"]) == {-1.05}  # the average and the task
    # Times have axes of their own, which are as wide as they need.
    assert "ratio of times" in times.get_xlabel() and "<" not in marks_of(times)
    (ends,) = table.filter(claim=names[1], task="average").select("low", "high").rows()
    assert times.get_xlim()[1] >= max(map(abs, ends))


def test_what_was_not_decided_for_lack_of_seeds_or_values_is_not_drawn() -> None:
    assert marks("isolation_label_over_random") == {}
    assert marks("deep_auc_rises") == {}
    assert marks("retrieval_helps") == {}


def test_every_mark_is_in_the_legend() -> None:
    markers = {str(line.get_marker()): line.get_label() for line in legend_of_verdicts(STYLE)}
    assert markers == {
        "o": "supported",
        "P": "untrained too",
        "X": "mixed",
        "s": "not supported",
        "D": "undecided",
        "v": "not compared",
        "|": "control",
        "x": "untrained network",
        ".": "a task",
    }
