"""Tables of perturbations: what is measured, and its summary."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

PERTURBATIONS = table(
    "perturbations",
    "one per (example, perturbation), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.PERTURBATION,
    f.LABEL,
    *f.SCORED,
    keys="model task seed example perturbation",
)

PERTURBED_TEXTS = table(
    "perturbed_texts",
    "one per (perturbation, test text)",
    f.TASK,
    f.SEED,
    f.PERTURBATION,
    f.EXAMPLE,
    Column("text", "string", "the perturbed text; several fields joined as in the table texts"),
    Column("words", "int32", "number of its words, separated by white space", "words"),
    Column(
        "changed",
        "int32",
        "number of words that differ from the original text's at their place",
        "words",
    ),
    keys="task seed perturbation example",
)

RARE_WORDS = table(
    "rare_words",
    "one per content word of the task's test texts",
    f.TASK,
    Column("word", "string", "the content word, in lower case"),
    Column("count", "int32", "its count in the task's training texts", "words"),
    Column(
        "replacement",
        "string",
        "the nearest rarer word in the encoder's space; null if there is none",
    ),
    Column(
        "replacement_count",
        "int32",
        "count of the replacement in the task's training texts",
        "words",
    ),
    Column("similarity", "float64", "cosine of the two words' embeddings", "1"),
    keys="task word",
)

PERTURBATIONS_SUMMARY = table(
    "perturbations_summary",
    "one per (task, perturbation, measure)",
    *f.OF_TASK,
    f.PERTURBATION,
    Column(
        "measure",
        "string",
        "accuracy; except for untouched: changed_words, share of the text's words that differ from "
        "the original at their place; on the examples run with both texts, agreement, share of "
        "predictions that are the same as for the untouched text, and "
        "accuracy_change: accuracy minus that for the untouched texts; "
        + f.PARTS_OF_CHANGE
        + " over all examples",
    ),
    Column("mean", "float64", "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task perturbation measure",
)
