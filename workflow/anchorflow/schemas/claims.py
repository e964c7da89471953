"""Table of claims: one per (claim, task or average)."""

import pyarrow as pa

from anchorflow.schemas.fields import AVERAGED_TASK, MODEL, field, table

CLAIMS = table(
    "claims",
    "one per (claim, task or average)",
    MODEL,
    AVERAGED_TASK,
    field("claim", pa.string(), "name of the claim"),
    field("statement", pa.string(), "the claim in words"),
    field("source", pa.string(), "paper and section of the claim"),
    field("family", pa.string(), "paper and section, whose claims are corrected together"),
    field(
        "form",
        pa.string(),
        "paper: as the paper states it; discriminating: with what tells it from what any network "
        "does",
    ),
    field("compared", pa.string(), "the difference that is above 0 if the claim holds"),
    field("unit", pa.string(), "unit of the difference"),
    field(
        "effect",
        pa.float64(),
        "the difference, mean over seeds; null if it is undefined or not tested",
        "as column unit",
    ),
    field(
        "low",
        pa.float64(),
        "lower end of the effect's interval; for time, the lower quartile of what is compared "
        "divided by the upper one of anchors, minus 1",
        "as effect",
    ),
    field(
        "high",
        pa.float64(),
        "upper end of the effect's interval; for time, the upper quartile of what is compared "
        "divided by the lower one of anchors, minus 1",
        "as effect",
    ),
    field("control", pa.string(), "what takes the place of what the claim is about"),
    field(
        "control_effect",
        pa.float64(),
        "the same difference, measured with the control; null if the effect is itself the "
        "difference from the control",
        "as effect",
    ),
    field(
        "over_control_low",
        pa.float64(),
        "lower end of the interval of effect minus control_effect, paired by text",
        "as effect",
    ),
    field("over_control_high", pa.float64(), "upper end of the interval of that", "as effect"),
    field("null", pa.string(), "where the claim must not hold"),
    field(
        "null_effect",
        pa.float64(),
        "the same difference for the untrained network; of several, the one that the effect "
        "exceeds least clearly; null if none was measured",
        "as effect",
    ),
    field(
        "over_null_low",
        pa.float64(),
        "lower end of the interval of effect minus null_effect, paired by text",
        "as effect",
    ),
    field("over_null_high", pa.float64(), "upper end of the interval of that", "as effect"),
    field(
        "p_value",
        pa.float64(),
        "two-sided p value of effect, difference from control, and difference from null, the "
        "largest of the three; 1 if one of them is not above 0, or its interval is undefined; null "
        "if one of them was not measured, for one seed, and for time",
        "1",
    ),
    field("p_corrected", pa.float64(), "p_value after Holm's correction within the family", "1"),
    field(
        "examples",
        pa.int32(),
        "examples, or pairs of the same example, summed over seeds; for time, batches timed",
        "examples, or batches",
    ),
    field("seeds", pa.int32(), "seeds averaged; over tasks, the maximum of the tasks", "seeds"),
    field(
        "interval",
        pa.string(),
        "what the intervals are over: seeds and test texts; test texts, with one draw of "
        "demonstrations; or quartiles of timings",
    ),
    field("rule", pa.string(), "rule for the verdict"),
    field("verdict", pa.string(), "supported, not supported, inconclusive or not tested"),
    field(
        "reason",
        pa.string(),
        "which of effect, control, and null failed, why the claim is not tested or its effect is "
        "undefined, or which tasks are missing from the average; null otherwise",
    ),
    keys="model task claim",
)
