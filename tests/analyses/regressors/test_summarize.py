"""Regressions on the same demonstrations: by hand, and the best head chosen here and held out."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.kernel.summarize import choose_head
from anchorflow.analyses.regressors import REGRESSORS_SUMMARY
from anchorflow.analyses.regressors.plot import plot_regressors
from anchorflow.analyses.regressors.summarize import encoder_prediction, logistic_prediction
from anchorflow.analyses.regressors.tabulate import tabulate_regressors
from anchorflow.random_draws import halves
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.statistics.estimates import Estimate, Stratum, weighted_mean
from constructed.kernel import EXAMPLES
from constructed.kernel import regressors_summary as summary
from figure_style import figure_of, labels_of

NAN = float("nan")


def test_the_encoder_weighs_labels_by_cosine_over_temperature() -> None:
    demonstrations = np.array([[1.0, 0], [0.6, 0.8], [0.6, -0.8]])
    labels = np.array([0, 1, 1])
    queries = np.array([[1.0, 0.0], [0.0, 1.0]])
    # At temperature 1 the two of label 1 outweigh the nearest: 2 exp(0.6) > exp(1); not at 0.1.
    assert encoder_prediction(queries, demonstrations, labels, 1.0).tolist() == [1, 1]
    assert encoder_prediction(queries, demonstrations, labels, 0.1).tolist() == [0, 1]
    assert encoder_prediction(queries, demonstrations, labels, 1e-5).tolist() == [0, 1]


def estimate(scores: list[list[float]]) -> Estimate:
    """All heads' scores; without the second seed or text, they are in the opposite order."""
    turned = [row[::-1] for row in scores]
    without = np.stack([np.ravel(scores), np.ravel(turned)])
    texts = (np.array([0]), np.array([1]))
    means = tuple(weighted_mean(of_seed[None]) for of_seed in without)
    return Estimate(np.ravel(scores), (Stratum(without, tuple(without[:, None]), texts, means),))


@pytest.mark.parametrize(
    ("demonstrations", "labels", "queries", "expected"),
    [
        ([[1.0, 0], [0.9, 0.1], [-1.0, 0], [-0.9, 0.1]], [0, 0, 1, 1], [[0.5, 0], [-1, 0]], [0, 1]),
        (np.eye(30), range(30), np.eye(30), list(range(30))),  # one text of each label
    ],
)
def test_logistic_regression_tells_what_is_linear_and_draws_no_warning_of_a_regression(
    demonstrations: Any, labels: Sequence[int], queries: Any, expected: list[int]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = logistic_prediction(np.array(queries), np.array(demonstrations), np.array(labels))
    assert found.tolist() == expected


def test_a_head_is_scored_where_it_was_not_chosen() -> None:
    agreement = [[0.9, 0.5], [0.2, 0.6], [0.55, 0.56]]  # one half, the other, all; two heads
    accuracy = [[0.8, 0.3], [0.1, 0.4], [0.45, 0.35]]
    here, held_out = choose_head(estimate([*agreement, *accuracy]))
    # On all: head 1. On the first half: head 0, scored 0.2 and 0.1 on the other; then head 1.
    np.testing.assert_allclose(here.values, [0.35, 0.56])
    np.testing.assert_allclose(held_out.values, [(0.1 + 0.3) / 2, (0.2 + 0.5) / 2])
    # If the parts are no halves, the first part's head is scored on the second alone.
    here, of_rest = choose_head(estimate([*agreement, *accuracy]), 0.7)
    np.testing.assert_allclose([here.values, of_rest.values], [[0.35, 0.56], [0.1, 0.2]])
    # Without the second seed or text, the same heads are scored, though others are best there.
    for chosen, without in ((here, [0.45, 0.55]), (held_out, [0.6, 0.75])):
        (stratum,) = chosen.strata
        for left_out in (stratum.without_seed, np.concatenate(stratum.without_text)):
            np.testing.assert_allclose(stratum.made(left_out), [chosen.values, without])


def test_a_half_without_examples_leaves_nothing_held_out() -> None:
    scores = [[1, 0], [NAN, NAN], [1, 0], [1, 0], [NAN, NAN], [1, 0]]
    here, held_out = choose_head(estimate(scores))
    np.testing.assert_allclose(here.values, [1, 1])
    assert np.isnan(held_out.values).all()


def value(table: pl.DataFrame, method: str, measure: str, per_label: int | None = None) -> float:
    rows = table.filter(
        pl.col("task") == "news",
        pl.col("method") == method,
        pl.col("measure") == measure,
        pl.col("demonstrations_per_label").eq_missing(per_label),
        pl.col("weights").is_null() | (pl.col("weights") == "max"),
    )
    (mean,) = rows["mean"].to_list()
    return float(mean)


def test_every_method_is_scored_on_the_same_examples() -> None:
    table = summary()
    assert table.schema == frame_schema(REGRESSORS_SUMMARY)
    assert value(table, "in_context", "accuracy") == 0.5  # always label 0
    assert value(table, "in_context", "accuracy", 1) == 1.0
    assert value(table, "encoder", "accuracy", 1) == 1.0  # the first round alone
    assert value(table, "encoder", "agreement", 1) == 1.0
    half = halves(pl.Series(range(EXAMPLES)), 0)["half"].to_numpy()
    assert value(table, "head_held_out", "agreement") == 0.0
    assert value(table, "head_chosen_here", "agreement") == max(np.mean(half == k) for k in (0, 1))
    with_all = table.filter(pl.col("demonstrations_per_label").is_null())
    assert with_all["demonstrations"].unique().to_list() == [4.0]
    own = pl.col("method") == "in_context"
    assert set(with_all.filter(own)["measure"]) == {"accuracy"}


def test_numbers_of_demonstrations_that_a_seed_lacks_are_left_out() -> None:
    table = summary({0: [1, 2], 1: [1]})
    assert table["demonstrations_per_label"].drop_nulls().unique().to_list() == [1]


def test_with_fewer_demonstrations_heads_are_chosen_anew_and_the_model_compared_with_itself() -> (
    None
):
    table = summary()
    # The first head always predicts what the model does, which is right; with all, it does not.
    for method in ("head_chosen_here", "head_held_out"):
        assert value(table, method, "agreement", 1) == 1.0
        assert value(table, method, "accuracy", 1) == 1.0
    assert value(table, "head_held_out", "agreement") == 0.0
    assert value(table, "in_context", "agreement", 1) == 0.5  # with all, it says always 0
    of_heads = table.filter(pl.col("method") == "head_held_out", weights="max")
    assert sorted(set(of_heads["demonstrations"])) == [2.0, 4.0]


def test_a_further_encoder_is_a_method_with_its_own_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = summary(further={"swapped": 0.05})  # whose queries lie on the other label's first
    assert value(table, "encoder_swapped", "accuracy", 1) == 0.0
    assert value(table, "encoder", "accuracy", 1) == 1.0
    assert "encoder_swapped_logistic" not in table["method"].to_list()
    (legend,) = figure_of(monkeypatch, plot_regressors, table, labels_of(table)).legends
    assert "swapped, kernel regression" in [text.get_text() for text in legend.get_texts()]


def test_published_numbers_stand_beside_the_papers_model_and_tasks_alone() -> None:
    assert summary()["published"].null_count() == len(summary())
    known = summary(model="gpt-j-6b", task="rotten_tomatoes").drop_nulls("published")
    assert known.select("task", "method", "measure", "weights", "published").rows() == [
        ("rotten_tomatoes", "in_context", "accuracy", None, 0.671),
        ("rotten_tomatoes", "encoder", "accuracy", None, 0.478),
        ("rotten_tomatoes", "head_held_out", "accuracy", "max", 0.527),
        ("rotten_tomatoes", "head_held_out", "agreement", "max", 0.683),
    ]
    assert known["demonstrations_per_label"].null_count() == 4
    other = summary(model="gpt-j-6b", task="sst2", encoder="encoders/bert").drop_nulls("published")
    assert "encoder" not in other["method"].to_list()
    assert len(other) == 3


def test_published_rows_follow_ours_of_the_same_measure() -> None:
    rows = tabulate_regressors(summary(model="gpt-j-6b", task="sst2")).table
    accuracy = rows.filter(measure="accuracy")
    ours = ["in context", "encoder", "encoder logistic", "head chosen here", "head held out"]
    theirs = [f"{name} (published)" for name in ("in context", "encoder", "head held out")]
    assert accuracy["method"].to_list() == [*ours, *theirs]
    assert accuracy["sst2"].to_list()[-3:] == ["0.81", "0.50", "0.75"]
    assert set(accuracy[AVERAGE].to_list()[-3:]) == {"–"}
