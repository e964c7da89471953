"""Confusion of labels told from probabilities, and its correlation with key distances."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest
from scipy.stats import spearmanr

from anchorflow.analyses.confusion import CONFUSION_SUMMARY
from anchorflow.analyses.confusion.summarize import (
    confusion_measures,
    rank_correlations,
    summarize_confusion,
)
from anchorflow.schemas.frames import frame_schema
from constructed.confusion import cell, of_two_labels, prompts_of


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


def test_a_run_without_three_labels_has_no_correlation() -> None:
    assert of_two_labels().filter(measure="correlation")["mean"].null_count() == 8


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
