"""Table of robustness: one per (task or average, perturbation, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

ROBUSTNESS = f.table(
    "robustness",
    "one per (task or average, perturbation, measure)",
    *f.OF_TASK,
    f.PERTURBATION,
    f.field(
        "measure",
        pa.string(),
        "accuracy; and, not for untouched: changed_words, share of the text's words that are not "
        "what was in their place; on the examples run with both texts, agreement, share predicted "
        "as the untouched text, and accuracy_change, accuracy minus that of the untouched texts",
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task perturbation measure",
)
