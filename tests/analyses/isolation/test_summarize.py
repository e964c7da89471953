"""Loyalty: the four measures and their averages, worked out by hand."""

import math

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.isolation.schema import ISOLATION_SUMMARY
from anchorflow.analyses.isolation.summarize import loyalty_measures, summarize_isolation
from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics import accuracy_change as change
from constructed.interventions import isolation
from constructed.interventions import isolation_prompts as prompts


def test_measures_compare_each_prediction_with_the_untouched_one() -> None:
    measured = loyalty_measures(isolation()).sort("seed", "positions", "draw")
    assert measured["positions"].to_list() == ["label", "random", "random"] * 2
    assert measured["label_loyalty"].to_list() == [0, 1, 0, 1, 1, 0]
    assert measured["word_loyalty"].to_list() == [3 / 7, 1, 0, 1, 1, 4 / 6]
    assert measured["accuracy"].to_list() == [0, 1, 0, 0, 0, 1]
    # The isolated label words let the first text become wrong and its likeliest token no label
    # word's; after the second draws, one text becomes wrong and one right among label words.
    assert measured["accuracy_change"].to_list() == [-1, 0, -1, 0, 0, 1]
    assert measured["accuracy_change_losing_task"].to_list() == [-1, 0, 0, 0, 0, 0]
    assert measured["accuracy_change_other_label"].to_list() == [0, 0, -1, 0, 0, 1]
    divergence = 0.25 * math.log(0.25 / 0.5) + 0.75 * math.log(0.75 / 0.5)
    assert measured["divergence"][0] == pytest.approx(divergence)
    assert measured["divergence"][1] == 0
    assert measured["divergence"][2] > 10  # a class that was likely has no probability left
    assert np.isfinite(measured["divergence"].to_numpy()).all()


def test_summaries_average_draws_examples_seeds_and_tasks() -> None:
    both = pl.concat([isolation("news"), isolation("reviews")])
    summary = summarize_isolation(both, prompts(), 0.95)
    assert summary.schema == frame_schema(ISOLATION_SUMMARY)
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
    # 0.5 in both seeds, whose draws are averaged first, of two texts; D and 0, with t of one degree
    # of freedom.
    loyalty, divergence = (
        values["news", *key] for key in (("random", "label_loyalty"), ("label", "divergence"))
    )
    assert (loyalty["low"], loyalty["high"]) == (0, 1)
    half = 12.706205 * divergence["mean"]
    assert divergence["mean"] > 0.05
    assert divergence["low"] == pytest.approx(divergence["mean"] - half, rel=1e-6)
    assert divergence["high"] == pytest.approx(divergence["mean"] + half, rel=1e-6)
    # 0.5 and 5/6: the interval of a share stays between 0 and 1.
    words = values["news", "random", "word_loyalty"]
    assert (words["low"], words["high"]) == (0, 1)
    assert [values["news", "label", name]["mean"] for name in change.CHANGES] == [-0.5, -0.5, 0]
    # -1/2 and 1/2, as one of two draws: a change of accuracy stays between -1 and 1.
    of_random = [values["news", "random", name] for name in change.CHANGES]
    assert [(row["low"], row["mean"], row["high"]) for row in of_random] == [
        (-1, 0, 1),
        (-1, 0, 1),  # of two texts that do not differ
        (-1, 0, 1),
    ]
    vocabulary = [values["news", "label", name]["mean"] for name in change.VOCABULARY]
    assert vocabulary == [0.25, 0]
    assert values["poems", "label", "accuracy"]["mean"] is None
    assert values["poems", "label", "accuracy"]["skipped"] == 1
    assert values["average", "label", "accuracy"]["skipped"] == 1


def test_nothing_to_summarize_is_said() -> None:
    with pytest.raises(InputError, match="every prompt exceeds"):
        summarize_isolation(isolation().clear(), prompts(), 0.95)
