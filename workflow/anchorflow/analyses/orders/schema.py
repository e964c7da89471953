"""Tables of orders: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

ARRANGEMENT = Column(
    "arrangement",
    "string",
    "order: the same demonstrations in random orders; draw: demonstrations drawn anew, the same "
    "number of each label",
)

ORDERS = table(
    "orders",
    "one per (arrangement, number, example), with the same number of demonstrations as in kernel "
    "regression",
    *f.CELL,
    ARRANGEMENT,
    Column(
        "number", "int32", "number of the order, 0 for that of kernel regression, or of the draw"
    ),
    f.EXAMPLE,
    f.LABEL,
    *f.PREDICTED,
    Column("heads", f.INDICES, "as in the table counts"),
    keys="model task seed arrangement number example",
)

ORDERS_SUMMARY = table(
    "orders_summary",
    "one per (task, arrangement, measure)",
    *f.OF_TASK,
    ARRANGEMENT,
    Column(
        "measure",
        "string",
        "over all orders, or all draws: accuracy, its mean; spread, its standard deviation; range, "
        "largest minus smallest; changed, "
        "share of predictions that differ between two of them, mean over pairs; head_agreement, "
        "share of predictions of the best head's kernel regression that agree with the model's, "
        "and head_changed, changed for its predictions; the same head for orders and draws, chosen "
        "on other texts for its agreement in both (see kernel.chosen_on); for orders also "
        "accuracy_difference, spread_difference, and changed_difference: minus the value for "
        "draws, paired",
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task arrangement measure",
)
