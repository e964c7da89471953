"""Table of robustness: one per (task or average, perturbation, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    AVERAGED_TASK,
    INTERVAL,
    MODEL,
    PERTURBATION,
    SKIPPED,
    field,
    table,
)

ROBUSTNESS = table(
    "robustness",
    "one per (task or average, perturbation, measure)",
    MODEL,
    AVERAGED_TASK,
    PERTURBATION,
    field(
        "measure",
        pa.string(),
        "accuracy; and, not for untouched: changed_words, share of the text's words that are not "
        "what was in their place; on the examples run with both texts, agreement, share predicted "
        "as the untouched text, and accuracy_change, accuracy minus that of the untouched texts",
    ),
    field("mean", pa.float64(), "mean over seeds", "1"),
    *INTERVAL,
    SKIPPED,
    keys="model task perturbation measure",
)
