"""Tables of heads: what is measured, and its summary."""

import pyarrow as pa

from anchorflow.schemas import fields as f

SCORE = f.field(
    "score",
    pa.string(),
    "prefix_matching: attention from a repeated random token to the one after its first "
    "occurrence; duplicate: to its first occurrence; previous: from any token to the one before; "
    "direct: the head's direct effect on the true label's logit minus the mean of the others, in "
    "total; writes_right, writes_wrong, writes_text, writes_template, writes_instruction, "
    "writes_first, writes_query: its parts from label words of the true class, other label words, "
    "and other tokens, which add up to it; label_copy: the same from all label words, each on its "
    "own label's logit; task_recognition: length of what the head writes within the span of the "
    "label words' unembeddings; task_learning: how far it writes towards the true label rather "
    "than others, divided by this length; task_recognition_share, task_learning_share: both "
    "divided by the length of what the head writes; gathers: attention from a label word to its "
    "demonstration's text; before: the same from the token before the label word; to_right: share "
    "of label words of the true class in the target's attention to label words; function_vector: "
    "change of the true label's log-odds if the target's output of this head is replaced, in a "
    "prompt with permuted label words, by its mean over other intact prompts; gradient: estimate "
    "of function_vector to first order",
)
CONTROL = f.field(
    "control",
    pa.float64(),
    "the same where it should be small: with the repeated tokens permuted (prefix_matching, "
    "duplicate); from equally many tokens of the texts in place of label words (writes_right, "
    "writes_wrong, label_copy); with random tokens of the vocabulary in place of label words (task "
    "scores); with attention spread evenly (gathers, before, to_right); with the mean of permuted "
    "prompts (function_vector); null: none",
    "as value",
)

HEADS = f.table(
    "heads",
    "one per (score, example, layer, head), demonstrations fixed",
    *f.CELL,
    SCORE,
    f.field(
        "example",
        pa.int32(),
        "row of the test text in the task's test split; of gathers and before, the demonstration; "
        "of prefix_matching, duplicate, and previous, the sequence of random tokens",
    ),
    f.LAYER,
    f.HEAD,
    f.field("value", pa.float64(), "the score", "probability, logits, nats, or 1"),
    CONTROL,
    keys="model task seed score example layer head",
)

HEADS_SUMMARY = f.table(
    "heads_summary",
    "one per (task or average, score, measure, layer, head)",
    *f.OF_TASK,
    SCORE,
    f.field(
        "measure",
        pa.string(),
        "value: the score; difference: minus its control, for scores with one; reliability: rank "
        "correlation over heads between halves of the examples, with layer and head -1",
    ),
    f.LAYER,
    f.HEAD,
    f.field("mean", pa.float64(), "mean over seeds; null if undefined", "as value, or 1"),
    *f.INTERVAL,
    keys="model task score measure layer head",
)
