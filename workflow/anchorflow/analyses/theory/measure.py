"""Kernel regression compared with exact Bayesian inference ([K] §4.1, Theorem 1, Table 3).

The theorem's kernel is K(x, x') = vec(T_x)ᵀ Σ⁻¹ vec(T_x'), with Σ = E[vec(T_x) vec(T_x)ᵀ] over
inputs of all tasks, estimated from samples. Σ is not centered, since it is the matrix that least
squares of labels on vec(T_x) inverts. Samples span fewer than the S² dimensions, so Σ is singular.
It is inverted in two ways: with a ridge, (Σ + λI)⁻¹, where λ is relative to Σ's largest eigenvalue,
or by the pseudo-inverse along a given number of leading eigenvectors.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anchorflow.analyses.theory import THEORY
from anchorflow.analyses.theory.hidden_markov import (
    Observations,
    World,
    draw_sequences,
    draw_world,
    exact_posterior,
    forward,
    operators,
)
from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.store.cell import Cell

_SMALLEST = 1e-120  # products of two such entries, with a ridge's factor, do not underflow
_RANK = 1e-12  # singular values below this share of the largest are rounding errors


@dataclass(frozen=True)
class Prompts:
    """Prompts of one world, each of one task: n demonstrations and a test input.

    Inputs are rows of ``inputs``, distinct ones only, since operators are large.
    """

    inputs: Observations  # [U, length]
    demonstrations: NDArray[np.int64]  # [N, n], rows of inputs
    labels: NDArray[np.int64]  # [N, n], observations
    tests: NDArray[np.int64]  # [N], rows of inputs


@dataclass(frozen=True)
class Moment:
    """Σ = V diag(σ²) Vᵀ of sampled inputs."""

    directions: Array  # [S², rank], V
    scales: Array  # [rank], σ, decreasing


def draw_prompts(
    world: World, prompts: int, demonstrations: int, length: int, random: np.random.Generator
) -> Prompts:
    """Prompts of tasks drawn from the prior, with pairs drawn independently from the task."""
    tasks = random.integers(world.tasks, size=prompts)
    pairs = draw_sequences(world, np.repeat(tasks, demonstrations + 1), length + 1, random)
    inputs, rows = np.unique(pairs[:, :length], axis=0, return_inverse=True)
    rows = rows.reshape(prompts, demonstrations + 1)
    labels = pairs[:, length].reshape(rows.shape)
    return Prompts(inputs, rows[:, :-1], labels[:, :-1], rows[:, -1])


def second_moment(world: World, samples: int, length: int, random: np.random.Generator) -> Moment:
    """Σ of vec(T_x) over inputs of tasks drawn from the prior."""
    tasks = random.integers(world.tasks, size=samples)
    drawn = draw_sequences(world, tasks, length, random)
    inputs, times = np.unique(drawn, axis=0, return_counts=True)
    rows = _vectors(world, inputs) * np.sqrt(times / samples)[:, None]
    _, scales, directions = np.linalg.svd(rows, full_matrices=False)
    rank = int((scales > _RANK * scales[0]).sum())
    return Moment(directions[:rank].T, scales[:rank])


def _vectors(world: World, inputs: Observations) -> Array:
    """vec(T_x) of every input, [U, S²], where U inputs are distinct.

    Products of two of them must not be too small for double precision.
    """
    vectors = operators(world, inputs).reshape(len(inputs), -1)
    if len(vectors) and np.abs(vectors).max(1).min() < _SMALLEST:
        raise InputError(
            f"theory.length: inputs of {inputs.shape[1]} observations are too improbable for "
            "double precision; choose shorter ones, or raise theory.sharpness."
        )
    return vectors


def ridge_kernel(vectors: Array, moment: Moment, ridge: float) -> Array:
    """vᵀ (Σ + λI)⁻¹ v' of all pairs of ``vectors``, [U, S²], as [U, U]; λ = ridge · σ_1²."""
    added = ridge * moment.scales[0] ** 2
    along = vectors @ moment.directions
    beyond = vectors - along @ moment.directions.T
    kernel: Array = (along / (moment.scales**2 + added)) @ along.T + beyond @ beyond.T / added
    return kernel


def rank_kernel(vectors: Array, moment: Moment, rank: int) -> Array:
    """vᵀ Σ⁺ v' along the ``rank`` leading eigenvectors of Σ, or all there are, as [U, U]."""
    along = vectors @ moment.directions[:, :rank] / moment.scales[:rank]
    kernel: Array = along @ along.T
    return kernel


def nearest_kernel(vectors: Array, prompts: Prompts, count: int) -> Array:
    """[N, count]: 1 for the demonstrations of largest cosine with the test input, else 0.

    Of several with the largest cosine up to rounding, for example equal inputs, each has 1.
    """
    directions = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    demonstrations = prompts.demonstrations[:, :count]
    cosines = (directions @ directions.T)[prompts.tests[:, None], demonstrations]
    nearest: Array = (cosines >= cosines.max(1, keepdims=True) - _RANK).astype(float)
    return nearest


def prediction_similarity(next_given_task: Array, log_inputs: Array) -> Array:
    """Σ_o P(o | x) P(o | x') of all pairs of inputs, [U, U], without demonstrations.

    ``next_given_task``, [U, K, O], is P(o | x, task), and ``log_inputs``, [U, K], is log P(x |
    task).

    Source: Han et al. 2025, eq. 9.
    """
    no_pairs = np.zeros((len(log_inputs), 0, log_inputs.shape[1]))
    predictions = exact_posterior(no_pairs, log_inputs, next_given_task)
    similarity: Array = predictions @ predictions.T
    return similarity


def kernel_regression(weights: Array, labels: NDArray[np.int64], count: int) -> tuple[Array, Array]:
    """ŷ = Σ_i e(y_i) K(x_test, x_i) / Σ_i K(x_test, x_i), made a distribution where it is none.

    A kernel with Σ⁻¹ may be negative. Where the weights have no positive sum, all demonstrations
    have equal weight; negative shares become 0, and the others are divided by their sum. From
    K(x_test, x_i), [N, n], and the labels y_i, [N, n], below ``count``, come [N, count], whose rows
    sum to 1, and [N], whether eq. 6 gave no distribution.

    Source: Han et al. 2025, eq. 6.
    """
    lost = weights.sum(1) <= _RANK * np.abs(weights).sum(1)
    used = np.where(lost[:, None], 1.0, weights)
    hits = labels[:, :, None] == np.arange(count)
    sums = np.einsum("nm,nmc->nc", used, hits)
    kept = np.maximum(sums, 0)
    # Rounding errors in sums over demonstrations are no negative shares.
    negative = (sums < -_RANK * np.abs(used).sum(1, keepdims=True)).any(1)
    return kept / kept.sum(1, keepdims=True), lost | negative


def kernels_of(
    vectors: Array, similarity: Array, moment: Moment, ridges: Sequence[float], ranks: Sequence[int]
) -> Iterator[tuple[str, float | None, int | None, Array]]:
    """Name, ridge, rank, and values [U, U] of every kernel, first the one that others compare with.

    ``permuted`` repeats the theorem's kernel; the caller permutes the labels.
    """
    for number, ridge in enumerate(ridges):
        kernel = ridge_kernel(vectors, moment, ridge)
        yield "theorem", ridge, None, kernel
        if number == 0:
            yield "permuted", ridge, None, kernel
    for rank in ranks:
        yield "theorem", None, rank, rank_kernel(vectors, moment, rank)
    yield "dot_product", None, None, vectors @ vectors.T
    yield "prediction", None, None, similarity


def measure_theory(spec: Mapping[str, Any]) -> pl.DataFrame:
    """Distance of kernel regression from exact inference in random worlds.

    Means over prompts, one row per world, number of demonstrations, and kernel.
    """
    parts = [pl.DataFrame(schema=frame_schema(THEORY))]
    for number in range(spec["worlds"]):
        rows = list(measure_world(number, spec))
        parts.append(pl.DataFrame(rows, schema=frame_schema(THEORY), orient="row"))
    return pl.concat(parts)


def measure_world(number: int, spec: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """The rows of one world, whose draws depend on its number alone."""
    world = draw_world(
        spec["states"],
        spec["observations"],
        spec["tasks"],
        spec["sharpness"],
        generator(number, "theory", "world"),
    )
    length, counts = spec["length"], sorted(spec["demonstrations"])
    prompts = draw_prompts(
        world, spec["prompts"], counts[-1], length, generator(number, "theory", "prompts")
    )
    samples = generator(number, "theory", "samples")
    moment = second_moment(world, spec["samples"], length, samples)
    vectors = _vectors(world, prompts.inputs)

    log_inputs, beliefs = forward(world, prompts.inputs)
    next_given_task = beliefs @ world.emission  # [U, K, O]
    of_labels = np.take_along_axis(
        next_given_task[prompts.demonstrations], prompts.labels[:, :, None, None], 3
    )[..., 0]
    of_pairs = log_inputs[prompts.demonstrations] + np.log(of_labels)  # [N, n, K]
    similarity = prediction_similarity(next_given_task, log_inputs)

    exact = {
        n: exact_posterior(
            of_pairs[:, :n], log_inputs[prompts.tests], next_given_task[prompts.tests]
        )
        for n in counts
    }

    def row(
        name: str, ridge: float | None, rank: int | None, n: int, weights: Array
    ) -> tuple[Any, ...]:
        labels = prompts.labels[:, :n]
        if name == "permuted":
            labels = generator(number, "theory", "permuted", n).permuted(labels, axis=1)
        predicted, improper = kernel_regression(weights, labels, spec["observations"])
        distance = np.abs(predicted - exact[n]).sum(1)
        same = predicted.argmax(1) == exact[n].argmax(1)
        values = distance.mean(), same.mean(), improper.mean()
        return (number, n, name, ridge, rank, *map(float, values), len(same))

    kernels = kernels_of(vectors, similarity, moment, spec["ridges"], spec["ranks"])
    for name, ridge, rank, kernel in kernels:
        for n in counts:
            weights = kernel[prompts.tests[:, None], prompts.demonstrations[:, :n]]
            yield row(name, ridge, rank, n, weights)
    for n in counts:
        yield row("nearest", None, None, n, nearest_kernel(vectors, prompts, n))


def measure(cell: Cell) -> None:
    spec = cell.spec
    cell.write(THEORY, measure_theory(spec), {"theory": spec})
