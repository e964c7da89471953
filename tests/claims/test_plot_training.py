"""Claims over training: the table of several checkpoints, and the figure of their effects."""

from itertools import pairwise

import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from anchorflow.claims.plot_training import over_training, plot_training
from anchorflow.claims.schema import TRAINING
from anchorflow.config.checkpoints import checkpoints_of
from anchorflow.schemas.frames import frame_schema
from constructed.verdicts import (
    ALSO_UNTRAINED,
    MISSING,
    ONE_SEED,
    SUPPORTED,
    TIMED,
    UNCLEAR,
    UNDEFINED,
    claims_table,
)
from figure_style import figure_of

FLOW, LATE, TIME = "flow_early", "flow_late", "anchors_faster_than_full_cache"
OF_CHECKPOINTS = {
    "step0": {FLOW: UNCLEAR, LATE: UNDEFINED, TIME: TIMED, "retrieval_helps": MISSING},
    "step10": {FLOW: ALSO_UNTRAINED, LATE: UNCLEAR, TIME: TIMED, "retrieval_helps": MISSING},
    "step1000": {FLOW: SUPPORTED, LATE: ONE_SEED, TIME: TIMED, "retrieval_helps": MISSING},
}


def table(*names: str) -> pl.DataFrame:
    """A training of these checkpoints; those after the first three repeat the third."""
    decided = [*OF_CHECKPOINTS.values()]
    models = [f"tiny-{name}" for name in names]
    claims = [claims_table(model, decided[min(order, 2)]) for order, model in enumerate(models)]
    return over_training(pl.concat(claims[::-1]), "tiny", checkpoints_of("tiny", models))


STEPS = table(*OF_CHECKPOINTS)


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.get_visible()]


def markers(axes: Axes) -> list[tuple[str, float, float]]:
    """Marker, place, and effect of every checkpoint."""
    return [
        (str(line.get_marker()), float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in axes.lines
        if line.get_marker() != "None"
    ]


def names(axes: Axes) -> dict[float, str]:
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return {float(place): label.get_text() for place, label in ticks}


def test_the_table_has_the_claims_of_every_checkpoint_in_order_with_its_step() -> None:
    assert STEPS.schema == frame_schema(TRAINING)
    assert STEPS.select(TRAINING.keys).is_unique().all()
    flow = STEPS.filter(claim=FLOW, task="average")
    shown = ("training", "model", "order", "checkpoint", "step", "effect", "low", "verdict")
    assert flow.select(shown).rows() == [
        ("tiny", "tiny-step0", 0, "step0", 0, 0.25, -0.125, "undecided"),
        ("tiny", "tiny-step10", 1, "step10", 10, 0.5, 0.25, "untrained too"),
        ("tiny", "tiny-step1000", 2, "step1000", 1000, 0.5, 0.25, "supported"),
    ]
    assert table("step1", "main")["step"].is_null().all()


def test_claims_with_an_effect_have_a_panel_with_every_verdict_at_its_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = figure_of(monkeypatch, plot_training, STEPS)
    flow, late, time = panels(figure)
    assert markers(flow) == [("D", 0, 0.25), ("P", 10, 0.5), ("o", 1000, 0.5)]
    assert markers(late) == [("D", 10, 0.25), (".", 1000, 0.25)]  # undefined at first
    assert "(ratio" in time.get_title() and "ratio" not in flow.get_title()
    zero, line, *bars = flow.lines
    assert list(zero.get_ydata()) == [0, 0]
    assert list(line.get_xdata()) == [0, 10, 1000]
    ends = [tuple(bar.get_ydata()) for bar in bars if len(bar.get_ydata()) == 2]
    assert ends == [(-0.125, 0.625), (0.25, 0.75), (0.25, 0.75)]
    filled = {
        str(handle.get_label()): handle.get_markerfacecolor() != "white"
        for handle in figure.legends[0].get_lines()
    }
    assert filled == {
        "supported": True,
        "untrained too": True,
        "undecided": False,
        "effect without a verdict (one seed)": False,
    }


def test_steps_are_on_a_logarithmic_axis_that_begins_with_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = panels(figure_of(monkeypatch, plot_training, STEPS))[-1]
    assert names(last) == {0: "0", 10: "10", 1000: "1k"}
    assert "step" in last.get_xlabel()
    at = last.xaxis.get_transform().transform([10, 100, 1000])
    assert at[2] - at[1] == pytest.approx(at[1] - at[0])


def test_checkpoints_without_steps_are_at_equal_distances_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = figure_of(monkeypatch, plot_training, table("step10", "step1000", "main"))
    last = panels(figure)[-1]
    assert names(last) == {0: "step10", 1: "step1000", 2: "main"}
    assert [place for _, place, _ in markers(last)] == [0, 1, 2]
    assert last.get_xlabel() == "checkpoint" and last.get_xscale() == "linear"


def test_of_many_checkpoints_those_are_named_that_have_room_with_first_and_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = table("main", *(f"step{step}" for step in range(39)))
    named = sorted(names(panels(figure_of(monkeypatch, plot_training, many))[-1]))
    assert (named[0], named[-1]) == (0, 39)
    assert 4 <= len(named) <= 7
    gaps = [second - first for first, second in pairwise(named)]
    assert min(gaps) >= 6


def test_without_an_effect_the_figure_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = STEPS.filter(claim="retrieval_helps")
    (panel,) = panels(figure_of(monkeypatch, plot_training, nothing))
    assert [text.get_text() for text in panel.texts] == ["No claim was measured."]
