"""Table of order effects: one per (task or average, arrangement, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

ORDER_EFFECTS = f.table(
    "order_effects",
    "one per (task or average, arrangement, measure)",
    *f.OF_TASK,
    f.ARRANGEMENT,
    f.field(
        "measure",
        pa.string(),
        "over all orders, or all draws: accuracy, its mean; spread, its standard deviation, and "
        "range, largest minus smallest, both with the chance differences of few texts; changed, "
        "share of predictions that differ between two of them, mean over pairs; head_agreement, "
        "how often the best head's kernel regression predicts "
        "what the model predicts, and head_changed, as changed of its predictions, one head for "
        "orders and draws, chosen on other texts for its agreement in both (see "
        "heads.chosen_on); for orders also accuracy_difference, spread_difference, and "
        "changed_difference, minus the same of draws, paired",
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task arrangement measure",
)
