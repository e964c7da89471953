"""Scores of every attention head: what it looks at, and what it writes into the answer."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

# What a score is, and the same where it should be small; the table and the atlas quote both.
_PERMUTED = "the repeated tokens permuted"
_MATCHED = "equally many tokens of the texts in place of label words"
_VOCABULARY = "random tokens of the vocabulary in place of label words"
_EVEN = "attention spread evenly"
_SHUFFLED = "the mean over permuted prompts"
_PART = "part of the direct effect that comes from "
_REPLACED = (
    "if the target's output of this head is replaced, in a prompt with permuted label words, by "
    "its mean over other intact prompts, classes counting alike"
)
DEFINITIONS: dict[str, tuple[str, str | None]] = {
    "prefix_matching": (
        "attention from a repeated random token to the one after its first occurrence",
        _PERMUTED,
    ),
    "duplicate": ("attention from a repeated random token to its first occurrence", _PERMUTED),
    "previous": ("attention from a repeated random token to the one before", None),
    "direct": (
        "direct effect on the true label's logit minus the mean of the others, the sum of all "
        "writes_…",
        None,
    ),
    "writes_right": (_PART + "label words of the true class", _MATCHED),
    "writes_wrong": (_PART + "other label words", _MATCHED),
    "writes_text": (_PART + "the demonstrations' texts", None),
    "writes_template": (_PART + "the template", None),
    "writes_instruction": (_PART + "the instruction", None),
    "writes_first": (_PART + "the first token", None),
    "writes_query": (_PART + "the query", None),
    "label_copy": (
        "direct effect of all label words, each on its own label's logit minus the mean of the "
        "others",
        _MATCHED,
    ),
    "task_recognition": (
        "length of what the head writes within the span of the label words' unembeddings, without "
        "the vocabulary's mean",
        _VOCABULARY,
    ),
    "task_learning": (
        "how far the head writes towards the true label rather than others, divided by "
        "task_recognition",
        _VOCABULARY,
    ),
    "task_recognition_share": (
        "task_recognition divided by the length of what the head writes",
        _VOCABULARY,
    ),
    "task_learning_share": (
        "how far the head writes towards the true label rather than others, divided by the length "
        "of what it writes",
        _VOCABULARY,
    ),
    "gathers": ("attention from a label word to its demonstration's text", _EVEN),
    "before": ("attention from the token before a label word to its demonstration's text", _EVEN),
    "to_right": (
        "share of label words of the true class in the target's attention to label words",
        _EVEN,
    ),
    "function_vector": ("change of the true label's log-odds " + _REPLACED, _SHUFFLED),
    "function_vector_probability": (
        "change of the true label's probability among label words " + _REPLACED,
        _SHUFFLED,
    ),
    "gradient": ("estimate of function_vector to first order", None),
}
WITHOUT_CONTROL = tuple(name for name, (_, control) in DEFINITIONS.items() if control is None)
_NAMES_OF = {
    control or "null": [name for name, (_, of) in DEFINITIONS.items() if of == control]
    for _, control in DEFINITIONS.values()
}
SCORE = Column(
    "score",
    "string",
    "; ".join(f"{name}: {definition}" for name, (definition, _) in DEFINITIONS.items()),
)
CONTROL = Column(
    "control",
    "float64",
    "the same where it should be small, with "
    + "; ".join(f"{control}: {', '.join(names)}" for control, names in _NAMES_OF.items()),
    "as value",
)

HEADS = table(
    "heads",
    "one per (score, example, layer, head), demonstrations fixed",
    *f.CELL,
    SCORE,
    Column(
        "example",
        "int32",
        "row of the test text in the task's test split; of gathers and before, the demonstration, "
        "and of prefix_matching, duplicate, and previous, the sequence of random tokens, both "
        "counted on from seed to seed",
    ),
    f.LAYER,
    f.HEAD,
    Column("value", "float64", "the score", "probability, logits, nats, or 1"),
    CONTROL,
    keys="model task seed score example layer head",
)

HEADS_SUMMARY = table(
    "heads_summary",
    "one per (task or average, score, measure, layer, head)",
    *f.OF_TASK,
    SCORE,
    Column(
        "measure",
        "string",
        "value: the score; difference: minus its control, for scores with one; with layer and head "
        "-1: reliability: rank correlation over heads between halves of the examples; agreement: "
        "that of gradient with function_vector",
    ),
    f.LAYER,
    f.HEAD,
    Column("mean", "float64", "mean over seeds; null if undefined", "as value, or 1"),
    *f.INTERVAL,
    keys="model task score measure layer head",
)


ANALYSIS = Analysis(
    subject="the scores of the heads of {}",
    category=CAUSES,
    measured=Measured(
        twins=True,
        message="Scoring the heads of {model} for {task}",
        reads={"prompts": "prompts", "tokenizer": "tokenizers", "model": "models"},
    ),
    summary=Summary({"heads": "heads", "prompts": "prompts"}),
    figure=Presented("Scores of attention heads", untrained={"untrained": "heads"}),
    table=Presented("The heads of the highest scores"),
    asked_for="heads.scores",
)
