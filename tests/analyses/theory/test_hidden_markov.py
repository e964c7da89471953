"""Worlds of hidden Markov models: operators and exact inference against enumeration."""

from itertools import product

import numpy as np
import pytest

from anchorflow.analyses.theory.hidden_markov import (
    World,
    draw_sequences,
    draw_world,
    exact_posterior,
    forward,
    operators,
)

# Three states, two observations, and two tasks, which start in the first and in the last state.
WORLD = World(
    np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.25, 0.75, 0.0]]),
    np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]]),
    np.array([0, 2]),
)
ALL = {length: np.array(list(product(range(2), repeat=length))) for length in (1, 2, 3)}


def by_paths(sequence: np.ndarray, start: int, end: int | None = None) -> float:
    """P(sequence, state after it) from a start state, summed over all paths of states."""
    total = 0.0
    for path in product(range(3), repeat=len(sequence)):
        states = (start, *path)
        if end is None or states[-1] == end:
            total += np.prod(
                [
                    WORLD.emission[here, o] * WORLD.transition[here, there]
                    for o, here, there in zip(sequence, states, states[1:], strict=False)
                ]
            )
    return float(total)


@pytest.mark.parametrize("length", ALL)
def test_operators_hold_the_probabilities_of_enumerated_paths(length: int) -> None:
    products = operators(WORLD, ALL[length])
    for sequence, operator in zip(ALL[length], products, strict=True):
        paths = [[by_paths(sequence, start, end) for end in range(3)] for start in range(3)]
        assert operator == pytest.approx(np.array(paths), rel=1e-12)
    assert products.sum((0, 2)) == pytest.approx(np.ones(3))  # all sequences, from every state


@pytest.mark.parametrize("length", ALL)
def test_the_forward_algorithm_agrees_with_enumerated_paths(length: int) -> None:
    logarithm, belief = forward(WORLD, ALL[length])
    for at, sequence in enumerate(ALL[length]):
        for task, start in enumerate(WORLD.starts):
            likelihood = by_paths(sequence, start)
            ends = [by_paths(sequence, start, end) / likelihood for end in range(3)]
            assert np.exp(logarithm[at, task]) == pytest.approx(likelihood, rel=1e-12)
            assert belief[at, task] == pytest.approx(np.array(ends), rel=1e-12)


def test_the_posterior_is_that_of_all_enumerated_prompts_with_restarts() -> None:
    """P(S_n, x_test, y) summed over tasks; a product over pairs, since a delimiter restarts."""
    pairs = np.array([[0, 0, 1], [1, 0, 0]])  # two demonstrations, x of two observations and y
    test = np.array([0, 1])
    joint = np.zeros(2)
    for start in WORLD.starts:
        shown = np.prod([by_paths(pair, start) for pair in pairs])
        joint += [0.5 * shown * by_paths(np.array([*test, y]), start) for y in range(2)]

    of_pairs, _ = forward(WORLD, pairs)
    of_test, belief = forward(WORLD, test[None])
    posterior = exact_posterior(of_pairs[None], of_test, belief @ WORLD.emission)
    assert posterior[0] == pytest.approx(joint / joint.sum(), rel=1e-12)


def test_rescaling_keeps_long_sequences_from_underflow() -> None:
    logarithm, belief = forward(WORLD, np.zeros((1, 20_000), np.int64))
    assert logarithm.max() < -2000  # e to this power is 0 in floating point
    assert np.isfinite(logarithm).all()
    assert belief.sum(2) == pytest.approx(np.ones((1, 2)))


def test_drawn_sequences_have_the_frequencies_of_their_task() -> None:
    tasks = np.repeat([0, 1], 20_000)
    drawn = draw_sequences(WORLD, tasks, 2, np.random.default_rng(0))
    for task, start in enumerate(WORLD.starts):
        for sequence in ALL[2]:
            share = (drawn[tasks == task] == sequence).all(1).mean()
            assert share == pytest.approx(by_paths(sequence, start), abs=0.015)  # 4 deviations


def test_a_world_without_sharpness_is_uniform_and_its_tasks_start_apart() -> None:
    world = draw_world(4, 5, 4, 0.0, np.random.default_rng(0))
    assert np.array_equal(world.transition, np.full((4, 4), 0.25))
    assert world.emission == pytest.approx(np.full((4, 5), 0.2))
    assert sorted(world.starts) == [0, 1, 2, 3]
    assert world.tasks == 4


def test_a_sharp_world_keeps_likelihoods_above_0() -> None:
    world = draw_world(80, 100, 8, 30.0, np.random.default_rng(0))
    every = np.arange(100)[:, None].repeat(3, 1)
    logarithm, belief = forward(world, every)
    assert np.isfinite(logarithm).all()
    assert np.isfinite(belief).all()
