"""The figure of information flows: what it draws of the flows, of controls, and of twins."""

from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.flow import FLOW_SUMMARY, plot
from anchorflow.analyses.flow.plot import plot_flow
from anchorflow.analyses.flow.summarize import FLOWS, mean_shares, measures
from anchorflow.measurement import defaults, plot_summary
from anchorflow.schemas.frames import frame_schema
from figure_style import STYLE, figure_of, values_of

TASKS = ("news", "reviews", "average")


def summary(tasks: tuple[str, ...] = TASKS) -> pl.DataFrame:
    """A table of two layers; in the last one, nothing flows into label words."""
    rows = []
    for task, layer, (flow, scale) in product(tasks, range(2), measures()):
        last = layer == 1 and flow == "into_share"
        mean = None if last else 0.25 + layer / 4
        rows.append(("tiny", task, layer, flow, scale, mean, mean, mean, 3, 3, 1, 0))
    return pl.DataFrame(rows, schema=frame_schema(FLOW_SUMMARY), orient="row")


@pytest.mark.parametrize(
    ("tasks", "columns"), [(("news", "average"), 1), (("average",), 1), (TASKS, 3)]
)
def test_flows_and_what_label_words_are_compared_with_have_three_lines_each(
    tasks: tuple[str, ...], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    figure = figure_of(monkeypatch, plot_flow, summary(tasks))
    assert [axes.get_title() for axes in figure.axes[:columns]] == list(tasks[:columns])
    assert len(figure.axes) == 2 * columns
    shares, ratios = figure.axes[::columns]
    assert [values_of(line) for line in shares.lines] == [[0.25, 0.5]] * 3
    assert [values_of(line) for line in ratios.lines[:2]] == [[0.25, 0.5]] * 2
    assert values_of(ratios.lines[-1]) == [0.5, 0.5]  # label words like any other token
    assert len(ratios.lines) == 4
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert len(names) == len(set(names)) == 3 + 4


def test_where_nothing_flows_there_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    ratios = figure_of(monkeypatch, plot_flow, summary()).axes[3]
    assert values_of(ratios.lines[2]) == pytest.approx([0.25, np.nan], nan_ok=True)


def flows(model: str, *shares: float) -> pl.DataFrame:
    """The table ``flow`` of one text with these flows in the first of two layers, none after it."""
    named = dict(zip(FLOWS, shares, strict=True))
    rows = [
        {"model": model, "task": "news", "seed": 0, "example": 0, "layer": layer}
        | {name: value * (layer == 0) for name, value in named.items()}
        for layer in (0, 1)
    ]
    return pl.DataFrame(rows)


def test_the_flows_of_all_twins_are_one_gray_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    untrained = pl.concat([flows("tiny+a", 3.0, 3.0, 6.0), flows("tiny+b", 3.0, 0.0, 1.0)])
    figure = figure_of(monkeypatch, plot_flow, summary(), untrained=untrained)
    gray = [line for line in figure.axes[0].lines if line.get_color() == "0.65"]
    means = [pytest.approx([mean, np.nan], nan_ok=True) for mean in (1 / 2, 1 / 8, 3 / 8)]
    assert [values_of(line) for line in gray[:3]] == means
    dashes = [line.get_linestyle() for line in figure.axes[0].lines[:3]]
    assert [line.get_linestyle() for line in gray[:3]] == dashes  # those of the model's own
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names[3] == "gray: the same flow without training"
    plain = {**STYLE, "controls": False}
    figure = figure_of(monkeypatch, plot_flow, summary(), untrained=untrained, style=plain)
    assert not [line for line in figure.axes[0].lines if line.get_color() == "0.65"]


def test_untrained_networks_are_averaged_over_all_tasks_whichever_a_figure_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    twins = pl.concat([flows("tiny+a", 1.0, 1.0, 2.0), flows("tiny+a", 4.0, 0.0, 0.0)])
    twins = twins.with_columns(task=pl.Series(["news", "news", "reviews", "reviews"]))
    seen: dict[str, pl.DataFrame] = {}

    def plot_flow(
        summary: pl.DataFrame, untrained: pl.DataFrame, style: object, paths: object
    ) -> None:
        seen.update(summary=summary, untrained=untrained)

    monkeypatch.setattr(plot, "plot_flow", plot_flow)
    config = {**defaults(), "tasks": {"news": {}, "reviews": {}}}
    config["controls"] = {"untrained": ["initialized"], "stages": ["flow"]}
    paths = (tmp_path / "flow.png",)
    plot_summary("flow", summary(), config, paths, lambda _: twins, tasks=["news"])
    assert set(seen["summary"]["task"]) == {"news", "average"}
    average = mean_shares(seen["untrained"]).filter(task="average", layer=0, flow="s_wp")
    assert average["mean"].to_list() == [(1 / 4 + 1) / 2]
