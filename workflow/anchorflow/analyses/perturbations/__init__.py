"""Perturbed test texts ([K] Table 1)."""

from dataclasses import replace

from anchorflow.config.analysis import KERNEL_REGRESSION, Analysis, Measured, Presented, Summary
from anchorflow.config.table import SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas import measures as m
from anchorflow.schemas.summaries import summary_of

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

PERTURBATIONS_SUMMARY = summary_of(
    "perturbations",
    (f.PERTURBATION,),
    (
        m.ACCURACY,
        Measure(
            "changed_words",
            "share of the text's words that differ from the original at their place",
            SHARE,
        ),
        *m.IN_VOCABULARY,
        Measure("agreement", "share of predictions that are those of the untouched text", SHARE),
        replace(m.ACCURACY_CHANGES[0], words="accuracy minus that for the untouched texts"),
        *m.ACCURACY_CHANGES[1:],
    ),
    (f.SKIPPED,),
    about="changes and agreement are of the texts that are run untouched as well; ",
)


ANALYSIS = Analysis(
    subject="the accuracy of {} for perturbed test texts",
    category=KERNEL_REGRESSION,
    measured=Measured(
        {"prompts": "prompts", "predictions": "perturbations"},
        sharded=True,
        message="Predicting perturbed texts of {task} in {model}",
        reads={
            "samples": "samples",
            "texts": "perturbed_texts",
            "tokenizer": "tokenizers",
            "predictions": "attention/predictions",
            "model": "models",
        },
        scored=True,
        builds_prompts=True,
        without=("kinds", "typo_rate", "case_rate"),  # on which the perturbed texts depend
    ),
    summary=Summary(
        {
            "predictions": "perturbations/predictions",
            "perturbed": "perturbations/prompts",
            "prompts": "prompts",
            "texts": "perturbed_texts",
        }
    ),
    figure=Presented("Perturbed test texts", settings=("labels",)),
    table=Presented("Perturbed test texts (Table 1 of [K])"),
    asked_for="perturbations.kinds",
)
