"""Tables of claims: for a model, and over the training of one."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

CLAIMS = table(
    "claims",
    "one per (claim, task or average)",
    *f.OF_TASK,
    Column("claim", "string", "name of the claim"),
    Column("statement", "string", "the claim in words"),
    Column("source", "string", "paper and section of the claim"),
    Column("family", "string", "paper and section"),
    Column(
        "form",
        "string",
        "paper: as the paper states it; discriminating: stricter, to distinguish a trained network "
        "from any other",
    ),
    Column("compared", "string", "the difference that is above 0 if the claim holds"),
    Column("unit", "string", "unit of the difference"),
    Column("question", "string", "the claim as a question of the summary; null if it is not there"),
    Column("figure", "string", "the analysis whose figure or table has what is compared"),
    Column(
        "effect",
        "float64",
        "the difference, mean over seeds; null if it is undefined or not measured",
        "as column unit",
    ),
    Column(
        "low",
        "float64",
        "lower end of the effect's interval; for time, from quartiles: the compared method's lower "
        "one divided by the anchors' upper one, minus 1",
        "as effect",
    ),
    Column(
        "high",
        "float64",
        "upper end of the interval; for time, the other two quartiles",
        "as effect",
    ),
    Column("control", "string", "what takes the place of what the claim is about"),
    Column(
        "control_effect",
        "float64",
        "the same difference, measured with the control; null if the effect is itself the "
        "difference from the control",
        "as effect",
    ),
    Column(
        "over_control",
        "float64",
        "effect minus control_effect, both in the seeds and texts that have both",
        "as effect",
    ),
    Column("over_control_low", "float64", "lower end of its interval", "as effect"),
    Column("over_control_high", "float64", "upper end of its interval", "as effect"),
    Column("null", "string", "where the claim must not hold"),
    Column(
        "null_effect",
        "float64",
        "the same difference for the untrained network; with several, the one that the effect "
        "exceeds least clearly; null if none was measured",
        "as effect",
    ),
    Column(
        "over_null",
        "float64",
        "effect minus null_effect, both in the seeds that have both, and of all their texts",
        "as effect",
    ),
    Column("over_null_low", "float64", "lower end of its interval", "as effect"),
    Column("over_null_high", "float64", "upper end of its interval", "as effect"),
    Column(
        "p_value",
        "float64",
        "two-sided p value of effect, difference from control, and difference from null: the "
        "largest if all are above 0, otherwise the smallest of those that are not, times the "
        "number of differences; null if one was not measured that could support the claim, for "
        "one seed, too few texts, and time",
        "1",
    ),
    Column(
        "p_corrected",
        "float64",
        "p_value after the correction of Benjamini and Hochberg for all claims of this task",
        "1",
    ),
    Column(
        "examples",
        "int32",
        "test texts, or pairs of runs of the same text, summed over seeds; for time, batches timed",
        "test texts, or batches",
    ),
    Column("texts", "int32", "distinct texts among them; null for time", "texts"),
    Column("seeds", "int32", "seeds averaged; over tasks, the maximum of the tasks", "seeds"),
    Column(
        "interval",
        "string",
        "what the intervals cover: seeds and test texts; test texts, with one draw of "
        "demonstrations; or quartiles of timings",
    ),
    Column("rule", "string", "rule for the verdict"),
    Column(
        "effect_mark",
        "string",
        "the effect: holds, the interval is above 0; fails, it is at or below 0; unclear, it "
        "contains 0; missing, it was not measured or has no value; none, there is nothing to "
        "compare, or the effect is itself this difference",
    ),
    Column("control_mark", "string", "the same for its difference from the control"),
    Column("null_mark", "string", "the same for its difference from the untrained network"),
    Column(
        "verdict",
        "string",
        "supported; untrained too, as only the difference from the untrained network fails; mixed, "
        "as one task is above 0 and another is not, in one of the three; not supported, as one of "
        "the three fails; undecided, as an interval contains 0, the correction leaves no decision, "
        "or there are too few texts; not compared, as a control or null is missing; not measured, "
        "or with one seed",
    ),
    Column(
        "fails",
        "string",
        "for not supported and untrained too: which of effect, control and null fail; null "
        "otherwise",
    ),
    Column(
        "reason",
        "string",
        "which of effect, control, and null do not hold, why the claim is not measured or its "
        "effect is undefined, or which tasks are missing from the average; null otherwise",
    ),
    Column(
        "remedy",
        "string",
        "for not compared and not measured: configuration that measures what is missing; null if "
        "there is none, and otherwise",
    ),
    keys="model task claim",
)

_OVER_TRAINING = (
    *("claim", "question", "unit", "effect", "low", "high", "texts", "seeds", "interval"),
    "verdict",
)
TRAINING = table(
    "training",
    "one per (checkpoint, claim, task or average)",
    Column("training", "string", "name of the training in the configuration (checkpoint_of)"),
    *f.OF_TASK,
    Column("order", "int32", "order of the checkpoint in the training, from 0"),
    Column("checkpoint", "string", "revision or folder of the checkpoint, as in the model's name"),
    Column(
        "step",
        "int64",
        "number in the checkpoint's name; null if a checkpoint of the training has none, or if "
        "the numbers do not increase",
        "steps",
    ),
    *(column for column in CLAIMS.columns if column.name in _OVER_TRAINING),
    keys="training order task claim",
)
