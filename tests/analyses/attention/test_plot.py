"""The figure of AUCROC_l and R_l: where R_l is a share of next to nothing, it is left out."""

import polars as pl
import pytest

from anchorflow.analyses.attention import ATTENTION_SUMMARY
from anchorflow.analyses.attention.plot import plot_attention
from anchorflow.analyses.attention.summarize import mean_graded
from anchorflow.schemas.frames import frame_schema
from constructed.attention import deep_tables
from figure_style import STYLE, figure_of, level_of_chance, values_of

SHARES = {"news": [0.25, 1.0], "reviews": [-7.0, 1.0], "average": [0.2, 1.0]}


def summary() -> pl.DataFrame:
    rows = [
        ("tiny", task, layer, measure, mean, mean, mean, 6, 3, 2, 0)
        for task, shares in SHARES.items()
        for measure, values in (
            ("auc", [0.4, 0.75]),
            ("auc_other", [0.5, 0.25]),
            ("cumulative", shares),
            ("graded", [0.5, 0.75]),
            ("graded_other", [0.5, 0.5]),
        )
        for layer, mean in enumerate(values)
    ]
    return pl.DataFrame(rows, schema=frame_schema(ATTENTION_SUMMARY), orient="row")


def test_a_share_that_leaves_the_axis_is_said_to_be_undefined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    figure = figure_of(monkeypatch, plot_attention, summary())
    lower = figure.axes[3:6]
    named = [[line for line in panel.lines if line.get_label() == "$R_l$"] for panel in lower]
    values = [[values_of(line) for line in lines] for lines in named]
    assert values == [[[0.25, 1.0]], [], [[0.2, 1.0]]]
    assert [len(panel.texts) for panel in lower] == [0, 1, 0]
    assert lower[1].texts[0].get_text().startswith("not defined")
    assert {panel.get_ylim() for panel in lower} == {(-0.5, 1.5)}


@pytest.mark.parametrize(("controls", "drawn"), [(True, [[0.5, 0.25]]), (False, [])])
def test_chance_and_if_asked_for_other_tokens_are_drawn(
    controls: bool, drawn: list[list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    style = {**STYLE, "controls": controls}
    figure = figure_of(monkeypatch, plot_attention, summary(), style=style)
    others = [line for line in figure.axes[0].lines if line.get_label() == "other tokens"]
    assert [values_of(line) for line in others] == drawn
    assert [level_of_chance(figure, panel) for panel in range(3)] == [0.5] * 3


def test_label_words_without_training_are_a_gray_line_beside_the_graded_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = deep_tables(["perfect", "even"], ["even", "even"], [0, 1])
    twins = {"untrained": tables["attention"], "untrained_predictions": tables["predictions"]}
    means = mean_graded(*twins.values()).filter(task="news").sort("layer")
    panels = figure_of(monkeypatch, plot_attention, summary(), **twins).axes
    gray = [[line for line in panel.lines if line.get_color() == "0.65"] for panel in panels[6:]]
    assert [values_of(line) for line in gray[0]] == [means["mean"].to_list()]
    alone = figure_of(monkeypatch, plot_attention, summary()).axes[6]
    assert not [line for line in alone.lines if line.get_color() == "0.65"]
