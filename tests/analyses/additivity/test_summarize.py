"""Shares of what the whole prompt gains, worked out by hand, and the figure."""

import polars as pl
import pytest

from anchorflow.analyses.additivity import ADDITIVITY_SUMMARY
from anchorflow.analyses.additivity.plot import plot_additivity
from anchorflow.analyses.additivity.summarize import summarize_additivity
from anchorflow.schemas.frames import frame_schema
from constructed.additivity import of_additivity
from constructed.interventions import prompts
from figure_style import figure_of

ODDS = {"one": [0.0, 1.0], "whole": [2.0, 3.0], "composed": [1.0, 3.0], "deranged": [-1.0, 0.0]}


def test_what_is_gained_is_a_share_of_what_all_demonstrations_gain_over_one() -> None:
    table = summarize_additivity(of_additivity(ODDS, seeds=6), prompts(), 0.95)
    assert table.schema == frame_schema(ADDITIVITY_SUMMARY)
    assert table["mean"].is_not_null().all()
    answers = table.filter(task="news", layer=-1)
    means = {row[:2]: row[2] for row in answers.select("kind", "measure", "mean").rows()}
    assert means["composed", "gained"] == pytest.approx(1.5 / 2)
    assert means["deranged", "gained"] == pytest.approx(-1 / 2)
    assert (means["whole", "gained"], means["one", "gained"]) == pytest.approx((1, 0))
    assert means["composed", "log_odds"] == pytest.approx(2)
    assert means["one", "accuracy"] == pytest.approx(0.5)
    # Of two seeds, all demonstrations may gain nothing, and no share is defined.
    few = summarize_additivity(of_additivity(ODDS), prompts(), 0.95)
    assert few.filter(pl.col("mean").is_null())["measure"].unique().to_list() == ["gained"]
    cosine = table.filter(task="news", measure="cosine", kind="other_query").sort("layer")
    assert cosine["mean"].to_list() == pytest.approx([0.9, 0.6, 0.3])


def test_the_figure_has_a_band_for_what_is_composed_and_answers_between_one_and_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    summary = summarize_additivity(of_additivity(ODDS), prompts(), 0.95)
    panels = figure_of(monkeypatch, plot_additivity, summary).axes
    assert [line.get_label() for line in panels[0].lines] == [
        "single demonstrations, composed",
        "before another text",
        "with label words of other classes",
    ]
    assert len(panels[0].collections) == 1
    names = [tick.get_text() for tick in panels[1].get_xticklabels()]
    assert names == ["one", "wrong\nwords", "com-\nposed", "all"]
    # Without one of the controls, the others stay in place.
    fewer = summary.filter(pl.col("kind") != "deranged")
    panels = figure_of(monkeypatch, plot_additivity, fewer).axes
    names = [tick.get_text() for tick in panels[1].get_xticklabels()]
    assert names == ["one", "com-\nposed", "all"]
