"""Table of perturbations: one per (example, perturbation)."""

from anchorflow.schemas import fields as f

PERTURBATIONS = f.table(
    "perturbations",
    "one per (example, perturbation), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.PERTURBATION,
    f.LABEL,
    *f.SCORED,
    keys="model task seed example perturbation",
)
