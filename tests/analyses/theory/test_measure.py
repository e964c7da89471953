"""Kernels of random worlds, and regression with them, on numbers worked out by hand."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.theory import THEORY
from anchorflow.analyses.theory.hidden_markov import World, draw_sequences, draw_world, operators
from anchorflow.analyses.theory.measure import (
    Moment,
    Prompts,
    draw_prompts,
    kernel_regression,
    measure_theory,
    nearest_kernel,
    prediction_similarity,
    rank_kernel,
    ridge_kernel,
    second_moment,
)
from anchorflow.config.errors import InputError
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema

SPEC: dict[str, Any] = {
    "worlds": 2,
    "states": 6,
    "observations": 5,
    "tasks": 2,
    "sharpness": 2.0,
    "length": 2,
    "demonstrations": [4, 1, 2],
    "prompts": 30,
    "samples": 40,
    "ridges": [1e-4, 0.1],
    "ranks": [3],
}


def test_what_is_no_distribution_becomes_one_and_is_counted() -> None:
    weights = np.array([[3.0, -1.0, 2.0], [-2.0, 1.0, 0.0], [0.0, 0.0, 0.0], [3.0, -1.0, 1.0]])
    labels = np.array([[0, 1, 2], [0, 1, 1], [1, 1, 0], [0, 0, 2]])
    predicted, improper = kernel_regression(weights, labels, count=3)
    assert predicted[0] == pytest.approx([0.6, 0.0, 0.4])  # -1/4 becomes 0, 3/4 and 2/4 stay
    assert predicted[1] == pytest.approx([1 / 3, 2 / 3, 0.0])  # weights of sum -1 count alike
    assert predicted[2] == pytest.approx([1 / 3, 2 / 3, 0.0])
    assert predicted[3] == pytest.approx([2 / 3, 0.0, 1 / 3])  # a negative weight, but no share
    assert improper.tolist() == [True, True, True, False]
    # 3/4 for label 2, shown twice, and 1/4 for label 0.
    predicted, _ = kernel_regression(np.array([[1.0, 1.0, 2.0]]), np.array([[2, 0, 2]]), count=4)
    assert predicted.tolist() == [[0.25, 0.0, 0.75, 0.0]]


def test_kernels_invert_by_ridge_or_along_leading_directions() -> None:
    """Σ = diag(4, 1, 0) and vectors (2, 1, 1) and (4, -1, 3), in another basis."""
    turned, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))
    moment = Moment(turned[:, :2], np.array([2.0, 1.0]))
    vectors = np.array([[2.0, 1.0, 1.0], [4.0, -1.0, 3.0]]) @ turned.T
    # With λ = 4 · 1/4 = 1: (4/5 + 1/2 + 1/1), (8/5 - 1/2 + 3/1), (16/5 + 1/2 + 9/1).
    assert ridge_kernel(vectors, moment, 0.25) == pytest.approx(np.array([[2.3, 4.1], [4.1, 12.7]]))
    assert rank_kernel(vectors, moment, 1) == pytest.approx(np.array([[1.0, 2.0], [2.0, 4.0]]))
    both = pytest.approx(np.array([[2.0, 1.0], [1.0, 5.0]]))
    assert rank_kernel(vectors, moment, 2) == both
    assert rank_kernel(vectors, moment, 99) == both  # all there are


def test_the_moment_is_the_mean_product_of_sampled_operators() -> None:
    world = draw_world(3, 4, 2, 1.0, np.random.default_rng(0))
    random = np.random.default_rng(1)
    tasks = random.integers(2, size=50)
    sampled = operators(world, draw_sequences(world, tasks, 2, random)).reshape(50, 9)
    plain = sampled.T @ sampled / 50
    moment = second_moment(world, 50, 2, np.random.default_rng(1))
    found = (moment.directions * moment.scales**2) @ moment.directions.T
    assert found == pytest.approx(plain, rel=1e-9, abs=1e-15)
    inverse = np.linalg.inv(plain + 0.01 * np.linalg.eigvalsh(plain)[-1] * np.eye(9))
    kernel = ridge_kernel(sampled[:7], moment, 0.01)
    assert kernel == pytest.approx(sampled[:7] @ inverse @ sampled[:7].T, rel=1e-9)


def test_inputs_in_independent_directions_count_if_they_are_equal() -> None:
    """With all samples' directions, K(x, x') is 1 / P(x) for the same input, and 0 for others."""
    sure = np.eye(3)
    world = World(
        np.roll(sure, 1, 1), np.array([[0.5, 0.25, 0.25], [0, 1, 0], [0, 0, 1]]), np.array([0])
    )
    moment = second_moment(world, 4000, 1, np.random.default_rng(0))
    vectors = operators(world, np.array([[0], [1], [2]])).reshape(3, 9)
    kernel = rank_kernel(vectors, moment, 9)
    # T_0 has the first state alone; T_1 and T_2 share it, but each has a state of its own.
    assert kernel == pytest.approx(np.diag([2.0, 4.0, 4.0]), rel=0.15, abs=1e-9)


def test_the_nearest_demonstrations_share_the_vote() -> None:
    vectors = np.array([[1.0, 0.0], [3.0, 0.1], [0.0, 2.0], [5.0, 0.0]])
    prompts = Prompts(
        inputs=np.zeros((4, 1), np.int64),
        demonstrations=np.array([[2, 1, 3, 3], [2, 2, 1, 0]]),
        labels=np.zeros((2, 4), np.int64),
        tests=np.array([0, 2]),
    )
    assert nearest_kernel(vectors, prompts, 4).tolist() == [[0, 0, 1, 1], [1, 1, 0, 0]]
    assert nearest_kernel(vectors, prompts, 2).tolist() == [[0, 1], [1, 1]]


def test_similar_predictions_are_of_all_tasks_by_their_likelihood() -> None:
    # The first input is three times as likely in the first task, the second in the second alone.
    log_inputs = np.log(np.array([[0.3, 0.1], [1e-300, 0.2]]))
    following = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.2, 0.8]]])
    similarity = prediction_similarity(following, log_inputs)
    # (3/4, 1/4) and (1/5, 4/5).
    assert similarity == pytest.approx(np.array([[0.625, 0.35], [0.35, 0.68]]))


def test_prompts_are_of_one_task_each_with_pairs_that_it_can_produce() -> None:
    """Of two tasks, one says 0 and then 1, the other 2 and then 3."""
    world = World(np.roll(np.eye(4), 1, 1)[[0, 1, 2, 3]], np.eye(4), np.array([0, 2]))
    prompts = draw_prompts(world, 50, 3, 1, np.random.default_rng(0))
    firsts = prompts.inputs[prompts.demonstrations, 0]
    assert set(firsts[:, 0]) == {0, 2}
    assert (firsts == prompts.inputs[prompts.tests]).all()  # the test input's task is the pairs'
    assert (prompts.labels == firsts + 1).all()


def measured() -> pl.DataFrame:
    return measure_theory(SPEC)


def test_a_row_per_world_number_of_demonstrations_and_kernel() -> None:
    rows = measured()
    assert rows.schema == frame_schema(THEORY)
    kernels = rows.select("kernel", "ridge", "rank").unique(maintain_order=True).rows()
    assert kernels == [
        ("theorem", 1e-4, None),
        ("permuted", 1e-4, None),
        ("theorem", 0.1, None),
        ("theorem", None, 3),
        ("dot_product", None, None),
        ("prediction", None, None),
        ("nearest", None, None),
    ]
    assert len(rows) == 2 * 3 * len(kernels)
    assert rows["demonstrations"].unique().sort().to_list() == [1, 2, 4]
    assert rows["distance"].is_between(0, 2).all()
    assert rows["prompts"].unique().to_list() == [30]


def test_a_single_demonstration_leaves_kernels_nothing_to_choose() -> None:
    first = measured().filter(demonstrations=1, world=0)
    assert first["distance"].n_unique() == first["accuracy"].n_unique() == 1


def test_a_world_s_numbers_depend_on_nothing_but_its_number() -> None:
    both = measured()
    assert both.equals(measured())
    assert both.filter(world=0).equals(measure_theory({**SPEC, "worlds": 1}))
    fewer = measure_theory({**SPEC, "ranks": [], "ridges": [1e-4]})
    by = ["kernel", "ridge", "rank"]
    assert fewer.equals(both.join(fewer.select(by).unique(), on=by, how="semi", nulls_equal=True))
    assert both.filter(world=0)["distance"].to_list() != both.filter(world=1)["distance"].to_list()


def test_distance_and_accuracy_are_those_of_a_plain_computation() -> None:
    """Of the theorem's kernel, prompt by prompt, with Σ inverted as it stands."""
    world = draw_world(6, 5, 2, 2.0, generator(1, "theory", "world"))
    prompts = draw_prompts(world, 30, 4, 2, generator(1, "theory", "prompts"))
    random = generator(1, "theory", "samples")
    sampled = draw_sequences(world, random.integers(2, size=40), 2, random)
    vectors = operators(world, sampled).reshape(40, 36)
    moment = vectors.T @ vectors / 40
    inverse = np.linalg.inv(moment + 0.1 * np.linalg.eigvalsh(moment)[-1] * np.eye(36))
    distances, same = [], []
    for shown, labels, test in zip(
        prompts.demonstrations, prompts.labels, prompts.tests, strict=True
    ):
        weights, probability = np.zeros(5), np.zeros(5)
        of_test = operators(world, prompts.inputs[[test]])[0]
        for row, label in zip(shown, labels, strict=True):
            other = operators(world, prompts.inputs[[row]])[0]
            weights[label] += of_test.ravel() @ inverse @ other.ravel()
        for start in world.starts:
            likelihood = 1.0
            for row, label in zip(shown, labels, strict=True):
                reached = operators(world, prompts.inputs[[row]])[0][start]
                likelihood *= reached @ world.emission[:, label]
            probability += likelihood * (of_test[start] @ world.emission)
        weights = np.maximum(weights, 0) if weights.sum() > 0 else np.bincount(labels, minlength=5)
        predicted, exact = weights / weights.sum(), probability / probability.sum()
        distances.append(np.abs(predicted - exact).sum())
        same.append(predicted.argmax() == exact.argmax())
    (row,) = measured().filter(world=1, demonstrations=4, kernel="theorem", ridge=0.1).to_dicts()
    assert row["distance"] == pytest.approx(np.mean(distances), rel=1e-9)
    assert row["accuracy"] == np.mean(same)


def test_inputs_too_improbable_for_double_precision_are_refused() -> None:
    long = {**SPEC, "length": 400, "sharpness": 1}
    with pytest.raises(InputError, match=r"^theory\.length: inputs of 400 observations are too"):
        measure_theory(long)
