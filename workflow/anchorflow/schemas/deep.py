"""Table of deep: one per (task or average, layer, measure)."""

import pyarrow as pa

from anchorflow.schemas.fields import AVERAGED_TASK, INTERVAL, LAYER, MODEL, field, table

DEEP = table(
    "deep",
    "one per (task or average, layer, measure)",
    MODEL,
    AVERAGED_TASK,
    LAYER,
    field(
        "measure",
        pa.string(),
        "auc: AUCROC_l of label-word attention at the target, which predicts first tokens, against "
        "the model's own predictions, which scoring defines; "
        "cumulative: R_l, the share of all layers' excess AUC reached by layer l",
    ),
    field("mean", pa.float64(), "mean over seeds; null if undefined", "1"),
    *INTERVAL,
    field("unpredicted", pa.int32(), "classes never predicted, summed over seeds", "classes"),
    keys="model task layer measure",
)
