"""Attention to many demonstrations as kernel weights over their labels ([K] §5.1-5.3)."""

from anchorflow.config.analysis import KERNEL_REGRESSION, Analysis, Measured, Presented, Summary
from anchorflow.config.table import CORRELATION, SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas.summaries import summary_of

_SEGMENT = Column(
    "segment",
    "string",
    "part of a demonstration: before_text and before_label (template), text, label (word), after; "
    "with several fields, before_NAME and NAME of each in place of before_text and text",
)

KERNEL_ATTENTION = table(
    "kernel_attention",
    "one per (example, layer, head), with as many demonstrations as the budget allows",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.HEAD,
    Column(
        "attention_max",
        "list<float32>",
        "largest attention from the target to a token of each demonstration, other than the "
        "prompt's first, in prompt order",
        "probability",
    ),
    Column(
        "attention_label",
        "list<float32>",
        "attention to each label word, summed over its tokens",
        "probability",
    ),
    Column(
        "attention_mean",
        "list<float32>",
        "mean attention to the same tokens as attention_max",
        "probability",
    ),
    keys="model task seed example layer head",
)

KERNEL = table(
    "kernel",
    "one per (example, layer, head, weights)",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.HEAD,
    f.WEIGHTS,
    Column("prediction", "int32", "label with the largest Σ a_i e(y_i); null if all weights are 0"),
    Column(
        "correlation",
        "float64",
        "Pearson's correlation of weights with similarity over demonstrations; null if undefined",
        "1",
    ),
    Column(
        "correlation_in_template", "float64", "as correlation, with similarity_in_template", "1"
    ),
    Column(
        "permuted",
        "int32",
        "as prediction, with the weights a_i permuted among the demonstrations, by one random "
        "draw; null if all weights are 0",
    ),
    keys="model task seed example layer head weights",
)

SEGMENTED = table(
    "segments",
    "one per (example, layer, head, segment)",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    f.HEAD,
    _SEGMENT,
    Column(
        "attention",
        "float32",
        "attention from the target to this segment of all demonstrations together; in models with "
        "learned sinks, the segment learned sink has what these take",
        "probability",
    ),
    Column("tokens", "int32", "tokens of this segment in all demonstrations", "tokens"),
    Column(
        "width",
        "float64",
        "the segment's share of a demonstration's tokens, averaged over demonstrations",
        "1",
    ),
    keys="model task seed example layer head segment",
)

_PLACE = Column(
    "place", "float64", "place on a demonstration, from 0 (beginning) to 1 (end, with separator)"
)

PLACED = table(
    "places",
    "one per (example, layer, place), averaged over heads and demonstrations",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    _PLACE,
    Column(
        "attention",
        "float32",
        "attention from the target to the token at this place",
        "probability",
    ),
    keys="model task seed example layer place",
)

SIMILARITY = table(
    "similarity",
    "one per (example, demonstration)",
    *f.CELL,
    f.EXAMPLE,
    f.DEMONSTRATION,
    f.DEMONSTRATION_LABEL,
    Column(
        "similarity",
        "float64",
        "Σ_o P(o|x) P(o|x_i) over next tokens, each text alone, without template",
        "1",
    ),
    Column(
        "similarity_in_template", "float64", "as similarity, with each text in its template", "1"
    ),
    keys="model task seed example demonstration",
)

STATES = table(
    "states",
    "one per (layer, key-value head, demonstration, offset)",
    *f.CELL,
    f.LAYER,
    Column("head", "int32", "key-value head"),
    f.DEMONSTRATION,
    f.OFFSET,
    f.DEMONSTRATION_LABEL,
    Column(
        "next_token",
        "int32",
        "most likely token after the demonstration's text in its template, without demonstrations",
    ),
    Column("key", "list<float32>", "the key that attention uses, with any rotary embedding"),
    Column("value", "list<float32>", "the value"),
    keys="model task seed layer head demonstration offset",
)

COUNTS = table(
    "counts",
    "one per (example, number of demonstrations)",
    *f.CELL,
    f.EXAMPLE,
    Column(
        "demonstrations_per_label",
        "int32",
        "demonstrations of each label in the prompt, the first ones of the kernel prompt",
        "demonstrations",
    ),
    f.LABEL,
    *f.PREDICTED,
    Column(
        "heads",
        f.INDICES,
        "prediction of kernel regression with each head's attention_max, in order of layer and "
        "head; null if all its weights are 0",
    ),
    Column(
        "heads_permuted",
        f.INDICES,
        "as heads, with the labels permuted among the demonstrations, by one random draw",
    ),
    keys="model task seed example demonstrations_per_label",
)

KERNEL_SUMMARY = summary_of(
    "kernel",
    (
        f.LAYER,
        f.HEAD,
        Column(
            "weights",
            "string",
            f.KINDS_OF_WEIGHTS + "; none, with layer and head -1: the most frequent answer of the "
            "model (agreement) or the most frequent label (accuracy) for every text of a seed",
        ),
    ),
    (
        Measure(
            "agreement",
            "share of examples for which kernel regression on the head's attention predicts what "
            "the model predicts",
            SHARE,
        ),
        Measure("accuracy", "share for which it predicts the true label", SHARE),
        Measure(
            "correlation",
            "Pearson's correlation of attention with the similarity of the texts over "
            "demonstrations, averaged over examples",
            CORRELATION,
        ),
    ),
    (f.SKIPPED,),
    mean="mean over seeds; null if undefined",
)


ANALYSIS = Analysis(
    subject="kernel regression on the heads of {}",
    category=KERNEL_REGRESSION,
    measured=Measured(
        {
            "samples": "samples",
            "prompts": "prompts",
            "attention": "kernel_attention",
            "predictions": "predictions",
            "kernel": "kernel",
            "segments": "segments",
            "places": "places",
            "similarity": "similarity",
            "states": "states",
            "counts": "counts",
        },
        sharded=True,
        twins=True,
        message="Measuring attention to many demonstrations of {task} in {model}",
        reads={
            "texts": "texts",
            "samples": "samples",
            "prompts": "prompts",
            "tokenizer": "tokenizers",
            "model": "models",
        },
        builds_prompts=True,
        without=("chosen_on",),  # the texts on which heads are chosen affect summaries only
    ),
    summary=Summary(
        {
            "kernel": "kernel/kernel",
            "predictions": "kernel/predictions",
            "prompts": "kernel/prompts",
        },
        heavy=True,
    ),
    figure=Presented("Kernel regression by head"),
    table=Presented("Kernel regression: best heads"),
)
