"""How far answers move to the donor's, worked out by hand, and the figure over depth."""

import polars as pl
import pytest
from matplotlib.container import BarContainer, ErrorbarContainer

from anchorflow.analyses.transplant import TRANSPLANT_SUMMARY
from anchorflow.analyses.transplant.plot import plot_transplant
from anchorflow.analyses.transplant.summarize import summarize_transplant
from anchorflow.model.layer_kinds import by_place
from anchorflow.schemas.frames import frame_schema
from constructed.interventions import prompts, transplant
from figure_style import figure_of

OWN, DONOR = [0.25, 0.25, 0.75], [0.75, 0.5, 0.75]
LABEL, TEXT = ("keys_values", "label", 0), ("keys_values", "text", 0)


ACCURACY = ["accuracy_change", "accuracy_change_losing_task", "accuracy_change_other_label"]


def means(table: pl.DataFrame, places: str, task: str = "news") -> dict[str, float]:
    rows = table.filter(pl.col("task") == task, pl.col("places") == places)
    return dict(rows.select("measure", "mean").iter_rows())


def test_moves_are_shares_of_the_whole_way_and_predictions_count_where_the_donor_s_differs() -> (
    None
):
    taken = {LABEL: [0.75, 0.25, 0.0], TEXT: [0.25, 0.5, 0.75]}
    table = summarize_transplant(transplant(taken, OWN, DONOR), prompts(), 0.95)
    assert table.schema == frame_schema(TRANSPLANT_SUMMARY)
    # Ways of 1/2, 1/4, and none; squared 1/4 and 1/16 (twice, for both labels). Label words go the
    # whole of the first; text tokens, the whole of the second. Only the first text's prediction
    # differs in the donor.
    # The true label is 0; from 3/4 on, the likeliest token begins no label word. With label words,
    # the first text becomes wrong there, and the last one right.
    changes = zip(ACCURACY, [0, -1 / 3, 1 / 3], strict=True)
    vocabulary = {"label_mass": 1 / 3, "in_labels": 2 / 3}
    assert means(table, "label") == pytest.approx(
        {"moved": 4 / 5, "follows": 1, **dict(changes), **vocabulary}
    )
    vocabulary = {"label_mass": 1 / 2, "in_labels": 2 / 3}
    assert means(table, "text") == pytest.approx(
        {"moved": 1 / 5, "follows": 0, **dict.fromkeys(ACCURACY, 0), **vocabulary}
    )


def test_draws_add_up() -> None:
    taken = {LABEL: [0.75, 0.5, 0.75], ("keys_values", "label", 1): [0.25, 0.25, 0.75]}
    table = summarize_transplant(transplant(taken, OWN, DONOR), prompts(), 0.95)
    changes = zip(ACCURACY, [-1 / 6, -1 / 6, 0], strict=True)
    vocabulary = {"label_mass": 13 / 24, "in_labels": 1 / 2}
    assert means(table, "label") == pytest.approx(
        {"moved": 0.5, "follows": 0.5, **dict(changes), **vocabulary}
    )


def test_beyond_the_donor_is_more_than_the_whole_way_and_away_from_it_is_less_than_none() -> None:
    taken = {LABEL: [1.0, 0.75, 0.75], TEXT: [0.0, 0.125, 0.75]}
    table = summarize_transplant(transplant(taken, OWN, DONOR), prompts(), 0.95)
    assert means(table, "label")["moved"] == pytest.approx((3 / 2 * 4 + 2) / 5)
    assert means(table, "text")["moved"] == pytest.approx(-1 / 2)


def test_a_donor_with_the_same_answers_defines_no_way_to_it() -> None:
    table = summarize_transplant(transplant({LABEL: OWN}, OWN, OWN), prompts(), 0.95)
    to_donor = pl.col("measure").is_in(["moved", "follows"])
    assert table.filter(to_donor)["mean"].is_null().all()
    assert table.filter(~to_donor)["mean"].is_not_null().all()


def test_tasks_without_donors_are_undefined_and_a_run_of_these_alone_has_no_rows() -> None:
    bare = transplant({}, OWN, DONOR, task="poems").filter(pl.col("what") == "none")
    both = pl.concat([transplant({LABEL: DONOR}, OWN, DONOR), bare])
    table = summarize_transplant(both, prompts(("news", "poems")), 0.95)
    assert table.filter(pl.col("task") == "poems")["mean"].is_null().all()
    assert means(table, "label")["moved"] == pytest.approx(1)
    assert summarize_transplant(bare, prompts(("poems",)), 0.95).is_empty()


BANDS = {
    "keys_values": [
        ("all", 0, 3),
        ("first", 0, 1),
        ("first", 0, 2),
        ("last", 2, 1),
        ("last", 1, 2),
    ],
    "residual": [("at", 0, 1), ("at", 1, 1)],
}


def test_every_panel_ends_with_what_all_layers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = [
        transplant({(what, places, 0): DONOR for places in ("label", "text")}, OWN, DONOR, band)
        for what, bands in BANDS.items()
        for band in bands
    ]
    whole = by_place(pl.concat(tables).unique(maintain_order=True), [1, 3, 5], 6)
    summary = summarize_transplant(whole, prompts(), 0.95)
    upper = figure_of(monkeypatch, plot_transplant, summary).axes[:3]
    bars = [bar for panel in upper for bar in panel.containers if isinstance(bar, BarContainer)]
    assert [bar.get_label() for bar in bars] == ["label words"] * 3
    centers = [[patch.get_x() + patch.get_width() / 2 for patch in bar] for bar in bars]
    assert centers == [pytest.approx([0, 1, 2])] * 2 + [pytest.approx([0, 1])]
    # The number of the first layers, the first of the last ones, and the layer.
    ticks = [[tick.get_text() for tick in panel.get_xticklabels()] for panel in upper]
    assert ticks == [["1", "2", "3"], ["1", "3", "5"], ["1", "3"]]
    (marks,) = (m for m in upper[0].containers if m.get_label() == "equally many text tokens")
    assert isinstance(marks, ErrorbarContainer)
    assert len(marks.lines[0].get_xdata()) == 3
    assert marks.lines[0].get_linestyle() == "None"  # joined, they would look like a curve
    assert marks.has_yerr


def test_windows_are_lines_over_depth_beside_residual_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bands = {("keys", "window"): [0, 2, 4], ("residual", "at"): [1, 3]}
    places = ("label", "demonstrations", "one_label", "template", "target")
    tables = [
        transplant({(what, at, 0): DONOR for at in places}, OWN, DONOR, (side, layer, 2))
        for (what, side), layers in bands.items()
        for layer in layers
    ]
    whole = transplant({("keys", "label", 0): DONOR}, OWN, DONOR)
    summary = summarize_transplant(
        pl.concat([whole, *tables]).unique(maintain_order=True), prompts(), 0.95
    )
    panels = figure_of(monkeypatch, plot_transplant, summary).axes
    assert [panel.get_xlabel() for panel in panels[2:]] == [
        "keys of 2 layers,\nthe first of them …",
        "residual stream\nafter layer …",
    ]
    for panel, layers in zip(panels, [*bands.values()] * 2, strict=True):
        lines = [line for line in panel.lines if str(line.get_label())[0] != "_"]
        assert len(lines) == len(places)
        assert len(panel.collections) == len(places) - 1  # bands, of all but other tokens
        assert {tuple(line.get_xdata()) for line in lines} == {tuple(layers)}


def test_what_was_not_taken_has_no_panel_and_a_run_without_donors_an_empty_figure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken = transplant({LABEL: DONOR}, OWN, DONOR)
    bare = taken.filter(pl.col("what") == "none")
    for table, panels in ((taken, 2 * 2), (bare, 2 * 3)):
        figure = figure_of(
            monkeypatch, plot_transplant, summarize_transplant(table, prompts(), 0.95)
        )
        assert len(figure.axes) == panels
