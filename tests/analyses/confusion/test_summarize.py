"""Confusion of labels told from probabilities, and its correlation with key distances."""

from itertools import combinations
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from anchorflow.analyses.confusion import CONFUSION_SUMMARY
from anchorflow.analyses.confusion.plot import most_confused, plot_confusion
from anchorflow.analyses.confusion.summarize import (
    confusion_measures,
    rank_correlations,
    summarize_confusion,
)
from anchorflow.analyses.confusion.tabulate import tabulate_confusion
from anchorflow.schemas.frames import frame_schema
from constructed.confusion import cell, of_two_labels, prompts_of
from figure_style import STYLE, figure_of


def test_rank_correlations_are_spearman_s_where_defined() -> None:
    random = np.random.default_rng(2)
    first, second = random.normal(size=(5, 8)).round(1), random.normal(size=(3, 8)).round(1)
    first[1, [2, 5]] = first[3, 0] = second[2, 7] = np.nan
    correlations = rank_correlations(first, second)
    for row in range(5):
        for layer in range(3):
            kept = ~np.isnan(first[row]) & ~np.isnan(second[layer])
            plain = spearmanr(first[row][kept], second[layer][kept]).statistic
            assert correlations[row, layer] == pytest.approx(plain)
    assert np.isnan(rank_correlations(np.array([[1.0, 2.0]]), np.array([[2.0, 1.0]]))).all()
    assert np.isnan(rank_correlations(np.ones((1, 4)), np.arange(4.0)[None])).all()


def test_where_close_keys_are_confused_the_correlation_is_high_and_where_not_low() -> None:
    far = [0.1, 0.9, 0.5, 0.3, 1.0, 0.2]
    cells = [cell("mine", seed, 4, far) for seed in (0, 1)]
    cells += [cell("two", seed, 2, [1.0]) for seed in (0, 1)]
    predictions = pl.concat([first for first, _ in cells])
    diagnosis = pl.concat([second for _, second in cells])
    summary = summarize_confusion(predictions, diagnosis, prompts_of(predictions), 0.9)
    assert summary.schema == frame_schema(CONFUSION_SUMMARY)
    correlation = summary.filter(measure="correlation", heads="concatenated").sort("task", "layer")
    mine = correlation.filter(task="mine")
    assert mine["mean"][0] > 0.5
    assert mine["mean"][1] == pytest.approx(-mine["mean"][0])
    assert mine["low"][0] < mine["mean"][0] < mine["high"][0]
    two = correlation.filter(task="two")
    assert two["mean"].to_list() == [None, None]  # one pair only
    average = correlation.filter(task="average")
    assert average["mean"].to_list() == pytest.approx(mine["mean"].to_list())
    auc = summary.filter(measure="auc", task="mine")
    assert auc.select("label", "other").rows() == list(combinations(range(4), 2))
    assert auc["layer"].null_count() == 6
    assert auc["heads"].null_count() == 6
    distance = summary.filter(measure="distance", task="mine", heads="concatenated")
    assert distance.filter(layer=0)["mean"].to_list() == pytest.approx(far)
    apart = summary.filter(measure="correlation", heads="separate", task="mine").sort("layer")
    assert apart["mean"].to_list() == pytest.approx(mine["mean"].to_list()[::-1])


def test_distances_of_two_kinds_of_heads_are_not_mixed_up() -> None:
    predictions, diagnosis = cell("mine", 0, 4, [0.1, 0.9, 0.5, 0.3, 1.0, 0.2])
    with pytest.raises(ValueError, match="one kind of heads"):
        confusion_measures(predictions, diagnosis)
    weights = np.ones((1, len(predictions)))
    of_one = confusion_measures(predictions, diagnosis.filter(heads="concatenated"))(weights)
    assert of_one.shape == (1, 6 + 2)


def test_a_run_without_three_labels_has_no_correlation(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = of_two_labels()
    assert summary.filter(measure="correlation")["mean"].null_count() == 8
    assert tabulate_confusion(summary).table["average"].to_list() == ["–", "–"]
    (said,) = figure_of(monkeypatch, plot_confusion, summary, {"two": ["a", "b"]}).texts[1:]
    assert said.get_text() == "no task has three or more labels"


def test_a_task_that_was_skipped_whole_keeps_a_row_and_its_count() -> None:
    predictions, diagnosis = cell("mine", 0, 3, [0.2, 0.6, 1.0])
    prompts = prompts_of(predictions)
    skipped = prompts[:5].with_columns(task=pl.lit("long"), skipped=pl.lit("too long"))
    both = pl.concat([prompts, skipped])
    summary = summarize_confusion(predictions, diagnosis, both, 0.9)
    long = summary.filter(task="long")
    assert long["mean"].null_count() == len(long) == 4
    assert set(long["skipped"]) == {5}
    assert set(summary.filter(task="average")["examples"]) == {120}


def test_a_label_that_no_example_has_leaves_out_its_pairs() -> None:
    predictions, diagnosis = cell("mine", 0, 4, [0.1, 0.9, 0.5, 0.3, 1.0, 0.2])
    some = predictions.filter(pl.col("label") != 3)
    summary = summarize_confusion(some, diagnosis, prompts_of(some), 0.9)
    auc = summary.filter(measure="auc")
    assert auc.filter(other=3)["mean"].null_count() == 3
    assert summary.filter(measure="correlation", task="mine")["mean"].null_count() == 0


def test_of_many_labels_those_of_the_least_separate_pairs_are_shown() -> None:
    auc = np.full((4, 4), np.nan)
    for (a, b), value in {(0, 1): 0.9, (0, 2): 0.6, (1, 2): 0.8, (1, 3): 0.95, (2, 3): 0.7}.items():
        auc[a, b] = auc[b, a] = value
    assert [most_confused(auc, n) for n in (2, 3, 9)] == [[0, 2], [0, 2, 3], [0, 1, 2, 3]]


def test_label_words_that_mean_something_to_a_figure_are_drawn_as_they_are(tmp_path: Path) -> None:
    predictions, diagnosis = cell("many", 0, 4, [1.0] * 6)
    summary = summarize_confusion(predictions, diagnosis, prompts_of(predictions), 0.9)
    words = [" $\\frac$", " {model} $5", " two\nlines <b>|", " long" * 1000]
    path = tmp_path / "figure.svg"
    plot_confusion(summary, {"many": words}, STYLE, 0.9, {"svg": path})
    drawn = path.read_text(encoding="utf-8")
    for shown in ("$\\frac$", "{model} $5", "two lines &lt;b&gt;|", "long " * 5 + "long…"):
        assert f"<!-- {shown}" in drawn
