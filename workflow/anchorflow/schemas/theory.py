"""Table of theory: one per (world, number of demonstrations, kernel, way to invert)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

DEMONSTRATIONS = f.field(
    "demonstrations", pa.int32(), "demonstrations n of each prompt, the first ones", "pairs"
)
KERNEL = f.field(
    "kernel",
    pa.string(),
    "K(x, x') of kernel regression; theorem: vec(T_x)ᵀ Σ⁻¹ vec(T_x'); dot_product: the same "
    "without Σ⁻¹; nearest: 1 for the demonstrations of largest cosine of vec(T_x), else 0; "
    "prediction: Σ_o P(o|x) P(o|x'), eq. 9 of [K]; permuted: theorem with the first ridge, labels "
    "permuted among the demonstrations, a control",
)
RIDGE = f.field(
    "ridge",
    pa.float64(),
    "λ of (Σ + λI)⁻¹, as a share of Σ's largest eigenvalue; null for other ways to invert",
    "1",
)
RANK = f.field(
    "rank",
    pa.int32(),
    "largest rank of Σ's pseudo-inverse, along leading eigenvectors; null for other ways to invert",
)

THEORY = f.table(
    "theory",
    "one per (world, number of demonstrations, kernel, ridge, rank); means over prompts; of no "
    "language model",
    f.field("world", pa.int32(), "number of the random world, counted from 0; seed of its draws"),
    DEMONSTRATIONS,
    KERNEL,
    RIDGE,
    RANK,
    f.field(
        "distance",
        pa.float64(),
        "Σ_y |ŷ(y) - P(y | S_n, x_test)|, the L1 norm, between kernel regression and the exact "
        "posterior; at most 2",
        "1",
    ),
    f.field("accuracy", pa.float64(), "share of prompts for which both have the same arg max", "1"),
    f.field(
        "improper",
        pa.float64(),
        "share of prompts for which eq. 6 gave no distribution: weights whose sum is not positive, "
        "replaced by equal ones, or negative shares, replaced by 0",
        "1",
    ),
    f.field("prompts", pa.int32(), "prompts averaged", "prompts"),
    keys="world demonstrations kernel ridge rank",
)
