"""Kernel regression and exact Bayesian inference in random worlds ([K] §4.1, Theorem 1)."""

from collections.abc import Mapping
from typing import Any

from anchorflow.config.analysis import (
    KERNEL_REGRESSION,
    WORLDS,
    Analysis,
    Measured,
    Presented,
    Summary,
)
from anchorflow.config.errors import InputError
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

DEMONSTRATIONS = Column(
    "demonstrations", "int32", "demonstrations n of each prompt, the first ones", "pairs"
)

KERNEL = Column(
    "kernel",
    "string",
    "K(x, x') of kernel regression; theorem: vec(T_x)ᵀ Σ⁻¹ vec(T_x'); dot_product: the same "
    "without Σ⁻¹; nearest: 1 for the demonstrations of largest cosine of vec(T_x), else 0; "
    "prediction: Σ_o P(o|x) P(o|x'), eq. 9 of [K]; permuted: theorem with the first ridge, labels "
    "permuted among the demonstrations, a control",
)

RIDGE = Column(
    "ridge",
    "float64",
    "λ of (Σ + λI)⁻¹, as a share of Σ's largest eigenvalue; null for other ways to invert",
    "1",
)

RANK = Column(
    "rank",
    "int32",
    "largest rank of Σ's pseudo-inverse, along leading eigenvectors; null for other ways to invert",
)

THEORY = table(
    "theory",
    "one per (world, number of demonstrations, kernel, ridge, rank); means over prompts; without a "
    "language model",
    Column("world", "int32", "number of the random world; seed of its draws"),
    DEMONSTRATIONS,
    KERNEL,
    RIDGE,
    RANK,
    Column(
        "distance",
        "float64",
        "Σ_y |ŷ(y) - P(y | S_n, x_test)|, the L1 norm, between kernel regression and the exact "
        "posterior; at most 2",
        "1",
    ),
    Column("accuracy", "float64", "share of prompts for which both have the same arg max", "1"),
    Column(
        "improper",
        "float64",
        "share of prompts for which eq. 6 gave no distribution: weights whose sum is not positive, "
        "replaced by equal ones, or negative shares, replaced by 0",
        "1",
    ),
    Column("prompts", "int32", "prompts averaged", "prompts"),
    keys="world demonstrations kernel ridge rank",
)

THEORY_SUMMARY = table(
    "theory_summary",
    "one per (kernel, ridge, rank, number of demonstrations or null, measure); without a language "
    "model, and therefore without a claim",
    KERNEL,
    RIDGE,
    RANK,
    Column(
        "demonstrations",
        "int32",
        "demonstrations n of each prompt; null for slope and floor, which are over all n",
        "pairs",
    ),
    Column(
        "measure",
        "string",
        "distance, L1, from the exact posterior; accuracy of its arg max; improper, share of "
        "predictions that were corrected to a distribution; excess, distance minus that of the "
        "theorem's kernel with the first ridge, paired by world; slope, of log mean distance "
        "against log n by least squares; floor, of the larger half of n, distance against 1/√n by "
        "least squares, the value at 0",
    ),
    Column("mean", "float64", "mean over worlds; slope and floor are of mean distances", "1"),
    *f.INTERVAL[:2],
    Column("worlds", "int32", "worlds averaged", "worlds"),
    Column(
        "published",
        "float64",
        "Table 3 of [K], and slope and floor of its row in the same way; null where it has none",
        "as mean",
    ),
    keys="kernel ridge rank demonstrations measure",
)


def check(config: Mapping[str, Any]) -> None:
    """Refuse more tasks than the world has states."""
    states, tasks = config["theory"]["states"], config["theory"]["tasks"]
    if tasks > states:
        raise InputError(
            f"theory.tasks: {tasks} tasks can't start in distinct states, since theory.states is "
            f"{states}; choose at most {states}."
        )


ANALYSIS = Analysis(
    subject="kernel regression and Bayesian inference in random worlds",
    category=KERNEL_REGRESSION,
    measured=Measured(path=WORLDS),
    summary=Summary({"theory": "theory"}),
    figure=Presented("Kernel regression and Bayesian inference (Theorem 1 of [K])"),
    table=Presented("Kernel regression and Bayesian inference (Table 3 of [K])"),
    check=check,
)
