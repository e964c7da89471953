"""Differences of perturbed from untouched texts, paired by text, and how these are shown."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.perturbations import PERTURBATIONS_SUMMARY
from anchorflow.analyses.perturbations.plot import plot_perturbations
from anchorflow.analyses.perturbations.summarize import CHANGES, summarize_perturbations
from anchorflow.analyses.perturbations.tabulate import tabulate_perturbations
from anchorflow.schemas.frames import frame_schema
from constructed.perturbations import tables_of, with_a_task_skipped_whole
from figure_style import figure_of, labels_of


def values(summary: pl.DataFrame, task: str, name: str, column: str = "mean") -> dict[str, Any]:
    rows = summary.filter(pl.col("task") == task, pl.col("perturbation") == name)
    return dict(rows.select("measure", column).iter_rows())


def test_changes_are_differences_from_the_same_texts_untouched() -> None:
    summary = summarize_perturbations(**tables_of("news", 2), confidence=0.9)
    assert summary.schema == frame_schema(PERTURBATIONS_SUMMARY)
    assert values(summary, "news", "untouched") == {
        "accuracy": 0.75,
        "label_mass": 0.5,
        "in_labels": 1,
    }
    # Changed words: 0, 1, 2 and 3 of four; only the first text is predicted as before.
    assert values(summary, "average", "typos") == pytest.approx(
        {
            "accuracy": 0.5,
            "changed_words": 1.5 / 4,
            "agreement": 0.25,
            "accuracy_change": -0.25,
            "accuracy_change_losing_task": -0.5,
            "accuracy_change_other_label": 0.25,  # of the last text
            "label_mass": 0.25,
            "in_labels": 0.25,
        }
    )
    assert set(summary["examples"]) == {8}
    assert set(summary["skipped"]) == {0}


def test_the_change_weighs_pairs() -> None:
    tables = tables_of("news", 1)
    rows = tables["predictions"].with_columns(changed_words=pl.lit(0.0))
    statistic, texts = CHANGES.statistic(rows, "typos")
    assert texts.tolist() == [0, 1, 2, 3]
    weights = np.random.default_rng(0).multinomial(4, [0.25] * 4, 500).astype(float)
    # Right minus right: 0, -1, -1, 1 of the four examples.
    change = statistic(weights)[:, CHANGES.measures.index("accuracy_change")]
    np.testing.assert_allclose(change, weights @ [0, -1, -1, 1] / 4)


def test_the_change_s_interval_is_that_of_paired_differences() -> None:
    summary = summarize_perturbations(**tables_of("news", 1), confidence=0.6)
    # 0, -1, -1, 1: mean -.25, s² = 2.75 / 3; t at .8 with 3 degrees of freedom is 0.978472.
    half = 0.978472 * (2.75 / 3 / 4) ** 0.5
    ends = [values(summary, "news", "typos", end)["accuracy_change"] for end in ("low", "high")]
    assert ends == pytest.approx([-0.25 - half, -0.25 + half], rel=1e-6)


@pytest.mark.parametrize("left_out", [("typos", 3), ("untouched", 3)])
def test_a_text_skipped_on_one_side_is_left_out_of_pairs_and_counted(
    left_out: tuple[str, int],
) -> None:
    summary = summarize_perturbations(**tables_of("news", 2, left_out), confidence=0.9)
    # Without example 3, three of three are right untouched and one with typos.
    typos, untouched = (values(summary, "news", name) for name in ("typos", "untouched"))
    assert typos["accuracy_change"] == pytest.approx(-2 / 3)
    assert typos["agreement"] == pytest.approx(1 / 3)
    lacking = left_out[0] == "typos"
    assert typos["accuracy"] == pytest.approx(1 / 3 if lacking else 0.5)
    assert typos["changed_words"] == pytest.approx(1 / 4 if lacking else 1.5 / 4)
    assert untouched["accuracy"] == pytest.approx(0.75 if lacking else 1)
    counted, skipped = (values(summary, "news", "typos", name) for name in ("examples", "skipped"))
    assert (counted["accuracy"], skipped["accuracy"]) == ((6, 2) if lacking else (8, 0))
    for measure in ("accuracy_change", "agreement"):
        assert (counted[measure], skipped[measure]) == (6, 2)
    row = tabulate_perturbations(summary).table.filter(task="news", perturbation="typos")
    assert row["accuracy_change"].item().endswith(" (2 skipped)")
    assert ("skipped" in row["accuracy"].item()) == lacking


def test_a_task_skipped_whole_leaves_the_perturbation_without_average() -> None:
    summary = with_a_task_skipped_whole()
    for task in ("long", "average"):
        assert set(values(summary, task, "typos").values()) == {None}
    assert values(summary, "average", "untouched")["accuracy"] == 0.75
    assert values(summary, "long", "typos", "skipped")["accuracy_change"] == 4
    table = tabulate_perturbations(summary).table.filter(model="m")
    both = ("untouched", "typos")
    named = [(task, name) for task in ("news", "long", "average") for name in both]
    assert table.select("task", "perturbation").rows() == named
    assert table.filter(task="long", perturbation="typos")["accuracy"].item() == "– (4 skipped)"


def test_published_rows_follow_ours_and_say_whose_they_are() -> None:
    page = tabulate_perturbations(summarize_perturbations(**tables_of("news", 2), confidence=0.9))
    ours, published = (page.table.filter(model=name) for name in ("m", "[K], Table 1"))
    assert page.table.height == ours.height + published.height
    assert ours.filter(task="news")["perturbation"].to_list() == ["untouched", "typos"]
    assert ours.filter(task="news", perturbation="untouched")["agreement"].item() == "–"
    assert published.select("perturbation", "accuracy", "accuracy_change").rows() == [
        ("untouched", "0.805", "–"),
        ("typos", "0.534", "-0.271"),
        ("rare_words", "0.677", "-0.128"),
        ("complex", "0.788", "-0.017"),
    ]
    assert "whose texts GPT-3.5 rewrote: perturbations of the same names" in page.note


@pytest.mark.parametrize("tasks", [1, 2])
def test_the_figure_takes_one_task_and_tasks_that_were_skipped_whole(
    tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = summarize_perturbations(**tables_of("news", 1), confidence=0.9)
    summary = one if tasks == 1 else with_a_task_skipped_whole()
    figure = figure_of(monkeypatch, plot_perturbations, summary, labels_of(summary))
    assert len(figure.axes) == 2 * (1 if tasks == 1 else 3)
