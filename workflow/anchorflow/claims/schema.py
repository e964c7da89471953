"""Table of claims: one per (claim, task or average)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

CLAIMS = f.table(
    "claims",
    "one per (claim, task or average)",
    *f.OF_TASK,
    f.field("claim", pa.string(), "name of the claim"),
    f.field("statement", pa.string(), "the claim in words"),
    f.field("source", pa.string(), "paper and section of the claim"),
    f.field("family", pa.string(), "paper and section"),
    f.field(
        "form",
        pa.string(),
        "paper: as the paper states it; discriminating: stricter, to distinguish a trained network "
        "from any other",
    ),
    f.field("compared", pa.string(), "the difference that is above 0 if the claim holds"),
    f.field("unit", pa.string(), "unit of the difference"),
    f.field(
        "question", pa.string(), "the claim as a question of the summary; null if it is not there"
    ),
    f.field("figure", pa.string(), "the analysis whose figure or table has what is compared"),
    f.field(
        "effect",
        pa.float64(),
        "the difference, mean over seeds; null if it is undefined or not measured",
        "as column unit",
    ),
    f.field(
        "low",
        pa.float64(),
        "lower end of the effect's interval; for time, from quartiles: the compared method's lower "
        "one divided by the anchors' upper one, minus 1",
        "as effect",
    ),
    f.field(
        "high",
        pa.float64(),
        "upper end of the interval; for time, the other two quartiles",
        "as effect",
    ),
    f.field("control", pa.string(), "what takes the place of what the claim is about"),
    f.field(
        "control_effect",
        pa.float64(),
        "the same difference, measured with the control; null if the effect is itself the "
        "difference from the control",
        "as effect",
    ),
    f.field(
        "over_control",
        pa.float64(),
        "effect minus control_effect, both in the seeds and texts that have both",
        "as effect",
    ),
    f.field("over_control_low", pa.float64(), "lower end of its interval", "as effect"),
    f.field("over_control_high", pa.float64(), "upper end of its interval", "as effect"),
    f.field("null", pa.string(), "where the claim must not hold"),
    f.field(
        "null_effect",
        pa.float64(),
        "the same difference for the untrained network; with several, the one that the effect "
        "exceeds least clearly; null if none was measured",
        "as effect",
    ),
    f.field(
        "over_null",
        pa.float64(),
        "effect minus null_effect, both in the seeds that have both, and of all their texts",
        "as effect",
    ),
    f.field("over_null_low", pa.float64(), "lower end of its interval", "as effect"),
    f.field("over_null_high", pa.float64(), "upper end of its interval", "as effect"),
    f.field(
        "p_value",
        pa.float64(),
        "two-sided p value of effect, difference from control, and difference from null: the "
        "largest if all are above 0, otherwise the smallest of those that are not, times the "
        "number of differences; null if one was not measured that could support the claim, for "
        "one seed, too few texts, and time",
        "1",
    ),
    f.field(
        "p_corrected",
        pa.float64(),
        "p_value after the correction of Benjamini and Hochberg for all claims of this task",
        "1",
    ),
    f.field(
        "examples",
        pa.int32(),
        "test texts, or pairs of runs of the same text, summed over seeds; for time, batches timed",
        "test texts, or batches",
    ),
    f.field("texts", pa.int32(), "distinct texts among them; null for time", "texts"),
    f.field("seeds", pa.int32(), "seeds averaged; over tasks, the maximum of the tasks", "seeds"),
    f.field(
        "interval",
        pa.string(),
        "what the intervals cover: seeds and test texts; test texts, with one draw of "
        "demonstrations; or quartiles of timings",
    ),
    f.field("rule", pa.string(), "rule for the verdict"),
    f.field(
        "effect_mark",
        pa.string(),
        "the effect: holds, the interval is above 0; fails, it is at or below 0; unclear, it "
        "contains 0; missing, it was not measured or has no value; none, there is nothing to "
        "compare, or the effect is itself this difference",
    ),
    f.field("control_mark", pa.string(), "the same for its difference from the control"),
    f.field("null_mark", pa.string(), "the same for its difference from the untrained network"),
    f.field(
        "verdict",
        pa.string(),
        "supported; untrained too, as only the difference from the untrained network fails; mixed, "
        "as one task is above 0 and another is not, in one of the three; not supported, as one of "
        "the three fails; undecided, as an interval contains 0, the correction leaves no decision, "
        "or there are too few texts; not compared, as a control or null is missing; not measured, "
        "or with one seed",
    ),
    f.field(
        "fails",
        pa.string(),
        "for not supported and untrained too: which of effect, control and null fail; null "
        "otherwise",
    ),
    f.field(
        "reason",
        pa.string(),
        "which of effect, control, and null do not hold, why the claim is not measured or its "
        "effect is undefined, or which tasks are missing from the average; null otherwise",
    ),
    f.field(
        "remedy",
        pa.string(),
        "for not compared and not measured: configuration that measures what is missing; null if "
        "there is none, and otherwise",
    ),
    keys="model task claim",
)
