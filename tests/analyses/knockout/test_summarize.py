"""Changes by cut edges of attention, worked out by hand, and the figure of these."""

from math import log

import polars as pl
import pytest
from matplotlib.container import BarContainer

from anchorflow.analyses.knockout import KNOCKOUT_SUMMARY
from anchorflow.analyses.knockout.plot import plot_knockout
from anchorflow.analyses.knockout.summarize import summarize_knockout
from anchorflow.schemas.frames import frame_schema
from constructed.interventions import knockout, prompts
from figure_style import figure_of

CUT = {
    ("label_to_target", False, 0): [0.25, 0.5],
    ("label_to_target", True, 0): [0.5, 0.5],
    ("label_to_target", True, 1): [0.25, 0.5],
}


def means(table: pl.DataFrame, control: bool, task: str = "news") -> dict[str, float]:
    rows = table.filter(pl.col("task") == task, pl.col("control") == control)
    return dict(rows.select("measure", "mean").iter_rows())


def test_changes_are_against_the_unmodified_run_and_draws_are_averaged() -> None:
    table = summarize_knockout(knockout(CUT, [0.5, 0.25]), prompts(), 0.95)
    assert table.schema == frame_schema(KNOCKOUT_SUMMARY)
    # The first text goes from 1/2 to 1/4 and becomes wrong, the second the other way round. Of
    # the tokens {1, 2} and {2, 3}, one of three is common.
    assert means(table, False) == pytest.approx(
        {
            "loss_change": 0,
            "log_odds_change": 0,
            "probability_change": 0,
            "label_loyalty": 0,
            "word_loyalty": 1 / 3,
            # The first text loses the task; the second finds it.
            "accuracy_change": 0,
            "accuracy_change_losing_task": -1 / 2,
            "accuracy_change_other_label": 1 / 2,
            "label_mass": 3 / 8,
            "in_labels": 1 / 2,
        },
        abs=1e-12,
    )
    # Random edges: nothing or -1/4 for the first text, 1/4 for the second.
    assert means(table, True) == pytest.approx(
        {
            "loss_change": (log(2) / 2 - log(2)) / 2,
            "log_odds_change": (-log(3) / 2 + log(3)) / 2,
            "probability_change": (-1 / 8 + 1 / 4) / 2,
            "label_loyalty": 1 / 4,
            "word_loyalty": (2 / 3 + 1 / 3) / 2,
            "accuracy_change": (-1 / 2 + 1) / 2,
            "accuracy_change_losing_task": -1 / 2 / 2,
            "accuracy_change_other_label": 1 / 2,
            "label_mass": (3 / 8 + 1 / 2) / 2,
            "in_labels": (1 / 2 + 1) / 2,
        }
    )
    assert set(table["examples"]) == {4}
    assert set(table["seeds"]) == {2}


def test_a_task_without_predictions_is_undefined_and_so_is_its_average() -> None:
    table = summarize_knockout(knockout(CUT, [0.5, 0.25]), prompts(("news", "poems")), 0.95)
    assert table.filter(pl.col("task") == "poems")["mean"].is_null().all()
    assert table.filter(pl.col("task") == "news")["mean"].is_not_null().all()


@pytest.mark.parametrize(
    ("bands", "labels"),
    [
        ([("single", 0, 1), ("single", 1, 1), ("last", 2, 1)], None),
        ([("first", 0, 1), ("middle", 1, 1), ("last", 2, 1), ("all", 0, 3)], 3),
        ([("all", 0, 3)], 1),
    ],
)
def test_every_class_has_a_panel_over_layers_or_thirds(
    bands: list[tuple[str, int, int]], labels: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = {
        (edges, control, 0): [0.3, 0.4 + 0.1 * control]
        for edges in ("label_to_target", "text_to_label", "first_to_all")
        for control in (False, True)
    }
    tables = pl.concat(knockout(cut, [0.5, 0.25], band) for band in bands).unique()
    summary = summarize_knockout(tables, prompts(), 0.95)
    figure = figure_of(monkeypatch, plot_knockout, summary)
    panels = [panel for panel in figure.axes if panel.get_visible()]
    titles = ["label words → target", "text → its label word", "first token → all"]
    assert [panel.get_title() for panel in panels] == titles
    # Lines over two layers, or bars, since two or three points joined would look like a curve.
    lines = [len(line.get_xdata()) for panel in panels for line in panel.lines[:-1]]
    bars = [len(c) for p in panels for c in p.containers if isinstance(c, BarContainer)]
    if labels is None:
        assert (lines, bars) == ([2, 2] * len(panels), [])
    else:
        assert bars == [labels, labels] * len(panels)
