"""Tables of perturbations: what is measured, and its summary."""

import pyarrow as pa

from anchorflow.schemas import fields as f

PERTURBATIONS = f.table(
    "perturbations",
    "one per (example, perturbation), demonstrations fixed",
    *f.CELL,
    f.EXAMPLE,
    f.PERTURBATION,
    f.LABEL,
    *f.SCORED,
    keys="model task seed example perturbation",
)

PERTURBED_TEXTS = f.table(
    "perturbed_texts",
    "one per (perturbation, test text)",
    f.TASK,
    f.SEED,
    f.PERTURBATION,
    f.EXAMPLE,
    f.field("text", pa.string(), "the perturbed text; several fields joined as in the table texts"),
    f.field("words", pa.int32(), "number of its words, separated by white space", "words"),
    f.field(
        "changed",
        pa.int32(),
        "number of words that differ from the original text's at their place",
        "words",
    ),
    keys="task seed perturbation example",
)

RARE_WORDS = f.table(
    "rare_words",
    "one per content word of the task's test texts",
    f.TASK,
    f.field("word", pa.string(), "the content word, in lower case"),
    f.field("count", pa.int32(), "its count in the task's training texts", "words"),
    f.field(
        "replacement",
        pa.string(),
        "the nearest rarer word in the encoder's space; null if there is none",
    ),
    f.field(
        "replacement_count",
        pa.int32(),
        "count of the replacement in the task's training texts",
        "words",
    ),
    f.field("similarity", pa.float64(), "cosine of the two words' embeddings", "1"),
    keys="task word",
)

PERTURBATIONS_SUMMARY = f.table(
    "perturbations_summary",
    "one per (task, perturbation, measure)",
    *f.OF_TASK,
    f.PERTURBATION,
    f.field(
        "measure",
        pa.string(),
        "accuracy; except for untouched: changed_words, share of the text's words that differ from "
        "the original at their place; on the examples run with both texts, agreement, share of "
        "predictions that are the same as for the untouched text, and "
        "accuracy_change: accuracy minus that for the untouched texts; "
        + f.PARTS_OF_CHANGE
        + " over all examples",
    ),
    f.field("mean", pa.float64(), "mean over seeds", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task perturbation measure",
)
