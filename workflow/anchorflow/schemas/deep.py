"""Table of deep: one per (task or average, layer, measure)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

DEEP = f.table(
    "deep",
    "one per (task or average, layer, measure)",
    *f.OF_TASK,
    f.LAYER,
    f.field(
        "measure",
        pa.string(),
        "auc: AUCROC_l of label-word attention at the target, which predicts first tokens, against "
        "the model's own predictions, which scoring defines; "
        "cumulative: R_l, the share of all layers' excess AUC reached by layer l",
    ),
    f.field("mean", pa.float64(), "mean over seeds; null if undefined", "1"),
    *f.INTERVAL,
    f.field("unpredicted", pa.int32(), "classes never predicted, summed over seeds", "classes"),
    keys="model task layer measure",
)
