"""Hidden Markov models as a world of tasks, with exact inference ([K] §4.1, App. C).

A world has a transition matrix T(s, s') and an emission matrix B(s, o). A task is the state θ in
which each of its sequences starts: s_1 = θ, o_t ~ B(s_t, ·), s_{t+1} ~ T(s_t, ·). An input x is the
first observations, and its label y is the next one.

Assumption 1 of the paper leaves open what a delimiter does. Here it is a symbol outside the
observations that carries no information; after it, the state is again the start of the *same* task.
Pairs are therefore independent given the task, P(S_n | θ) = Π_i P(x_i, y_i | θ), and demonstrations
are informative about the task only.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax

from anchorflow.arrays import Array

Observations = NDArray[np.int64]


@dataclass(frozen=True)
class World:
    """One hidden Markov model and its tasks, of S states, O observations, and K tasks."""

    transition: Array  # [S, S], rows sum to 1
    emission: Array  # [S, O], rows sum to 1
    starts: NDArray[np.int64]  # [K], the start state of each task; tasks are equally likely

    @property
    def tasks(self) -> int:
        """K."""
        return len(self.starts)


def draw_world(
    states: int, observations: int, tasks: int, sharpness: float, random: np.random.Generator
) -> World:
    """A random world: each row of T and B is the softmax of normal logits; starts are distinct.

    ``sharpness`` is the standard deviation of the logits. At 0, all sequences are equally likely;
    larger values make sequences more predictable. The paper states only "randomly parameterized".
    """
    transition = softmax(sharpness * random.normal(size=(states, states)), axis=1)
    emission = softmax(sharpness * random.normal(size=(states, observations)), axis=1)
    return World(transition, emission, random.choice(states, tasks, replace=False))


def draw_sequences(
    world: World, tasks: NDArray[np.int64], length: int, random: np.random.Generator
) -> Observations:
    """[N, length]: one sequence of each of the ``tasks``, [N], from its start state."""
    states = world.starts[tasks]
    drawn = np.empty((len(states), length), np.int64)
    for place in range(length):
        drawn[:, place] = _choose(world.emission[states], random)
        states = _choose(world.transition[states], random)
    return drawn


def _choose(probabilities: Array, random: np.random.Generator) -> NDArray[np.int64]:
    """One column per row, [N], drawn with the probabilities in that row, [N, columns]."""
    reached = probabilities.cumsum(1) <= random.random((len(probabilities), 1))
    most = probabilities.shape[1] - 1  # rounding may leave rows that sum to less than 1
    chosen: NDArray[np.int64] = np.minimum(reached.sum(1), most)
    return chosen


def operators(world: World, inputs: Observations) -> Array:
    """T_x = Π_t diag(p_{x_t}) T of each input, with p_o the column B(·, o).

    For inputs [N, length], the result, [N, S, S], is P(x, s_end | s_1) of each first state (row)
    and of the state after x (column), so that P(x, s_end) = p₀ᵀ T_x.

    Source: Han et al. 2025, §4.1; Jaeger 2000 (observable operators).
    """
    size = len(world.transition)
    products = np.tile(np.eye(size), (len(inputs), 1, 1))
    for column in inputs.T:
        emitted = world.emission[:, column].T  # [N, S]
        products = (products * emitted[:, None, :]) @ world.transition
    return products


def forward(world: World, sequences: Observations) -> tuple[Array, Array]:
    """The forward algorithm from the start of every task, rescaled at every step.

    For sequences [N, length], the results are log P(sequence | task), [N, K], and P(state after it
    | sequence, task), [N, K, S].
    """
    size = len(world.transition)
    belief = np.tile(np.eye(size)[world.starts], (len(sequences), 1, 1))  # [N, K, S]
    logarithm = np.zeros(belief.shape[:2])
    for column in sequences.T:
        joint = belief * world.emission[:, column].T[:, None, :]
        evidence = joint.sum(2)
        logarithm += np.log(evidence)
        belief = (joint / evidence[..., None]) @ world.transition
    return logarithm, belief


def exact_posterior(of_pairs: Array, of_input: Array, next_observation: Array) -> Array:
    """P(Y | S_n, x_test) over the mixture of equally likely tasks.

    Given log P(x_i, y_i | task) of each prompt's demonstrations, [N, n, K], log P(x_test | task),
    [N, K], and P(y | x_test, task), [N, K, O], the result is [N, O], whose rows sum to 1.
    """
    known = of_pairs.sum(1) + of_input  # log P(S_n, x_test | task)
    weights = np.exp(known - logsumexp(known, axis=1, keepdims=True))  # P(task | S_n, x_test)
    posterior: Array = np.einsum("nk,nko->no", weights, next_observation)
    return posterior
