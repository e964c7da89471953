"""Gains of chosen demonstrations, paired with random ones, and how these are shown."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.retrieval import RETRIEVAL_SUMMARY
from anchorflow.analyses.retrieval.plot import _look, plot_retrieval
from anchorflow.analyses.retrieval.summarize import CHOICES, GAINS, majority, summarize_retrieval
from anchorflow.analyses.retrieval.tabulate import tabulate_retrieval
from anchorflow.config.configuration import read_schema
from anchorflow.schemas.frames import frame_schema
from checkout import ROOT
from constructed.retrieval import ANSWERS, prompts_of, rows_of, with_a_task_skipped_whole
from figure_style import figure_of, labels_of


def values(summary: pl.DataFrame, task: str, choice: str, column: str = "mean") -> dict[str, Any]:
    rows = summary.filter(pl.col("task") == task, pl.col("choice") == choice)
    return dict(rows.select("measure", column).iter_rows())


def test_the_majority_of_labels_is_that_of_the_most_similar_where_several_are_as_frequent() -> None:
    assert majority(pl.Series([2, 0, 0, 1])) == 0
    assert majority(pl.Series([0, 0, 1, 1])) == 1
    assert majority(pl.Series([1, 2, 0, 2, 1])) == 1


def test_every_choice_of_the_configuration_is_summarized() -> None:
    schema = read_schema(ROOT / "workflow" / "schemas" / "config.schema.yaml")
    choices = schema["properties"]["retrieval"]["properties"]["choices"]["items"]["enum"]
    assert list(CHOICES) == ["random", *choices]


def test_gains_are_differences_from_random_demonstrations_on_the_same_examples() -> None:
    summary = summarize_retrieval(rows_of("news", 2), *prompts_of("news", 2), 0.9)
    assert summary.schema == frame_schema(RETRIEVAL_SUMMARY)
    assert values(summary, "news", "random") == pytest.approx(
        {
            "accuracy": 0.5,
            "similarity": 0.2,
            "same_label": 0.5,
            "majority": 0.5,
            "label_mass": 0.5,
            "in_labels": 1,
        }
    )
    assert values(summary, "average", "nearest") == pytest.approx(
        {
            "accuracy": 0.75,
            "similarity": 1.5 / 4,
            "same_label": 0.5,
            "majority": 0.75,  # all but the third text
            "label_mass": 1.5 / 4,
            "in_labels": 0.75,
            "accuracy_gain": 0.25,
            "accuracy_gain_losing_task": -0.25,  # of the last text
            "accuracy_gain_other_label": 0.5,
        }
    )
    assert set(summary["examples"]) == {8}
    assert set(summary["skipped"]) == {0}


def test_the_gain_weighs_pairs() -> None:
    rows = rows_of("news", 1).with_columns(voted=pl.lit(0))
    statistic, texts = GAINS.statistic(rows, "nearest")
    assert texts.tolist() == [0, 1, 2, 3]
    weights = np.random.default_rng(0).multinomial(4, [0.25] * 4, 500).astype(float)
    # Right minus right: 0, 1, 1, -1 of the four examples.
    gain = statistic(weights)[:, GAINS.measures.index("accuracy_gain")]
    np.testing.assert_allclose(gain, weights @ [0, 1, 1, -1] / 4)


@pytest.mark.parametrize("seeds", [1, 2])
def test_the_gain_s_interval_is_that_of_paired_differences(seeds: int) -> None:
    rows = rows_of("news", seeds)
    summary = summarize_retrieval(rows, *prompts_of("news", seeds), 0.6)
    # 0, 1, 1, -1: mean .25, s² = 2.75 / 3; t at .8 with 3 degrees of freedom is 0.978472. A
    # second seed that answers the same on the same texts tells nothing more.
    half = 0.978472 * (2.75 / 3 / 4) ** 0.5
    low, high = (
        values(summary, "news", "nearest", end)["accuracy_gain"] for end in ("low", "high")
    )
    assert [low, high] == pytest.approx([0.25 - half, 0.25 + half], rel=1e-6)


@pytest.mark.parametrize("left_out", [("nearest", 3), ("random", 3)])
def test_an_example_skipped_with_one_choice_is_left_out_of_the_gain_and_counted(
    left_out: tuple[str, int],
) -> None:
    tables = rows_of("news", 2, left_out), *prompts_of("news", 2, left_out)
    summary, lacking = summarize_retrieval(*tables, 0.9), left_out[0] == "nearest"

    def of(choice: str, column: str = "mean") -> dict[str, Any]:
        return values(summary, "news", choice, column)

    # Without example 3, one of three is right with random ones and all with nearest ones.
    assert of("nearest")["accuracy_gain"] == pytest.approx(2 / 3)
    assert of("nearest")["accuracy"] == pytest.approx(1 if lacking else 0.75)
    assert of("random")["accuracy"] == pytest.approx(0.5 if lacking else 1 / 3)
    for choice, some in (("nearest", lacking), ("random", not lacking)):
        counts = of(choice, "examples")["accuracy"], of(choice, "skipped")["accuracy"]
        assert counts == ((6, 2) if some else (8, 0))
    assert of("nearest", "examples")["accuracy_gain"] == 6
    assert of("nearest", "skipped")["accuracy_gain"] == 2
    row = tabulate_retrieval(summary).table.filter(task="news", choice="nearest")
    assert row["accuracy_gain"].item().endswith(" (2 skipped)")
    assert ("skipped" in row["accuracy"].item()) == lacking


def test_a_task_skipped_whole_with_one_choice_leaves_it_without_average() -> None:
    summary = with_a_task_skipped_whole()
    for task in ("long", "average"):
        assert set(values(summary, task, "nearest").values()) == {None}
    assert values(summary, "average", "random")["accuracy"] == 0.5
    assert values(summary, "long", "nearest", "skipped")["accuracy_gain"] == 4
    table = tabulate_retrieval(summary).table
    pairs = [(task, choice) for task in ("news", "long", "average") for choice in ANSWERS]
    assert table.select("task", "choice").rows() == pairs
    assert table.filter(task="long", choice="nearest")["accuracy"].item() == "– (4 skipped)"
    assert table.filter(task="news", choice="random")["accuracy_gain"].item() == "–"


def test_the_figure_takes_every_choice_and_tells_each_from_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, (prompts, retrieved) = rows_of("news", 1), prompts_of("news", 1)
    others = [choice for choice in CHOICES if choice not in ("random", "nearest")]
    like_nearest = [rows.filter(choice="nearest").with_columns(choice=pl.lit(c)) for c in others]
    shown = [retrieved.with_columns(demonstrations=pl.lit(choice)) for choice in others]
    summary = summarize_retrieval(
        pl.concat([rows, *like_nearest]), prompts, pl.concat([retrieved, *shown]), 0.9
    )
    assert summary["choice"].unique(maintain_order=True).to_list() == list(CHOICES)
    figure = figure_of(monkeypatch, plot_retrieval, summary, labels_of(summary))
    assert len(figure.axes[0].containers) == len(CHOICES)
    looks = {(look["color"], look["marker"]) for c in CHOICES for look in [_look(c, "abc")]}
    assert len(looks) == len(CHOICES)
