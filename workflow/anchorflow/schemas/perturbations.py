"""Table of perturbations: one per (example, perturbation)."""

from anchorflow.schemas.fields import (
    EXAMPLE,
    LABEL,
    MODEL,
    PERTURBATION,
    SCORED,
    SEED,
    TASK,
    table,
)

PERTURBATIONS = table(
    "perturbations",
    "one per (example, perturbation), demonstrations fixed",
    MODEL,
    TASK,
    SEED,
    EXAMPLE,
    PERTURBATION,
    LABEL,
    *SCORED,
    keys="model task seed example perturbation",
)
