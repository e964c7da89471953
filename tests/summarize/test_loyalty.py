"""Loyalty: the four measures and their averages, worked out by hand."""

import math

import numpy as np
import polars as pl
import pytest

from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.loyalty import LOYALTY
from anchorflow.summarize.loyalty import loyalty_measures, mean_over_draws, summarize_loyalty
from constructed.loyalty import isolation, prompts


def test_measures_compare_each_prediction_with_the_untouched_one() -> None:
    measured = loyalty_measures(isolation()).sort("seed", "positions", "draw")
    assert measured["positions"].to_list() == ["label", "random", "random"] * 2
    assert measured["label_loyalty"].to_list() == [0, 1, 0, 1, 1, 0]
    assert measured["word_loyalty"].to_list() == [3 / 7, 1, 0, 1, 1, 4 / 6]
    assert measured["accuracy"].to_list() == [0, 1, 0, 0, 0, 1]
    divergence = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert measured["divergence"][0] == pytest.approx(divergence)
    assert measured["divergence"][1] == 0
    assert measured["divergence"][2] > 10  # a class that was likely has no probability left
    assert np.isfinite(measured["divergence"].to_numpy()).all()


def test_summaries_average_draws_examples_seeds_and_tasks() -> None:
    both = pl.concat([isolation("news"), isolation("reviews")])
    summary = summarize_loyalty(both, prompts(), 200, 0.95)
    assert summary.schema == frame_schema(LOYALTY)
    assert summary["task"].unique(maintain_order=True).to_list() == [
        "news",
        "reviews",
        "poems",
        "average",
    ]
    values = {
        (row["task"], row["positions"], row["measure"]): row
        for row in summary.iter_rows(named=True)
    }
    assert values["news", "label", "label_loyalty"]["mean"] == 0.5
    assert values["news", "random", "label_loyalty"]["mean"] == 0.5
    assert values["news", "random", "word_loyalty"]["mean"] == pytest.approx((0.5 + 5 / 6) / 2)
    assert values["average", "label", "word_loyalty"]["mean"] == pytest.approx(5 / 7)
    assert values["news", "label", "accuracy"]["draws"] == 1
    assert values["news", "random", "accuracy"]["draws"] == 2
    assert values["news", "random", "accuracy"]["examples"] == 2
    assert values["news", "random", "accuracy"]["seeds"] == 2
    random = values["news", "random", "label_loyalty"]
    assert random["low"] <= random["mean"] <= random["high"]
    assert random["low"] < random["high"]
    assert values["poems", "label", "accuracy"]["mean"] is None
    assert values["poems", "label", "accuracy"]["skipped"] == 1
    assert values["average", "label", "accuracy"]["skipped"] == 1


def test_the_interval_covers_the_spread_between_draws() -> None:
    values = np.array([[[0.0], [0.0]], [[1.0], [1.0]]])  # two draws, two examples that agree
    statistic = mean_over_draws(values, 500, np.random.default_rng(0))
    assert statistic(np.ones((1, 2))).tolist() == [[0.5]]
    replicates = statistic(np.ones((500, 2)))[:, 0]
    assert set(replicates) == {0.0, 0.5, 1.0}
    assert 0.2 < (replicates == 0).mean() < 0.3


def test_nothing_to_summarize_is_said() -> None:
    with pytest.raises(InputError, match="every prompt exceeds"):
        summarize_loyalty(isolation().clear(), prompts(), 100, 0.95)
