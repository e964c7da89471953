"""Whether demonstrations override what label words mean (Kumar 2025)."""

from anchorflow.config.analysis import CAUSES, Analysis, Measured, Presented, Summary, Tabulated
from anchorflow.config.table import DIFFERENCE, SHARE, Column, Measure, table
from anchorflow.schemas import fields as f
from anchorflow.schemas.summaries import summary_of

DERANGED = "deranged"  # as tables call these label words, beside the task's own

OVERRIDE = table(
    "override",
    "one per (example, method), demonstrations fixed, with deranged label words: every class has "
    "the word of another one, by a draw per task and seed",
    *f.CELL,
    f.EXAMPLE,
    f.COMPRESSED,
    f.LABEL,
    *f.SCORED,
    keys="model task seed example method",
)

_OF_THEM = "share of the texts whose prior and mapping differ whose answer "
OVERRIDE_SUMMARY = summary_of(
    "override",
    (
        f.COMPRESSED,
        Column(
            "words",
            "string",
            "deranged: every class has the label word of another one; words: the task's own label "
            "words, on the same texts",
        ),
    ),
    (
        Measure(
            "differ",
            "share of texts whose prior, the answer without demonstrations, is not what "
            "the demonstrations map the true class to; all others are about these texts",
            SHARE,
        ),
        Measure("follows_mapping", f"{_OF_THEM}is the word of the demonstrations' mapping", SHARE),
        Measure("follows_prior", f"{_OF_THEM}is the prior", SHARE),
        Measure("follows_neither", f"{_OF_THEM}is another word", SHARE),
        Measure("override", "follows_mapping divided by the sum of it and follows_prior", SHARE),
        Measure(
            "exchanged",
            "override with the answers to texts of other classes in place of each text's own: "
            "what a mere change of the preferred word has; high also where meanings decide, as "
            "answers that keep their own prior often are this text's mapping",
            SHARE,
        ),
        Measure(
            "over_exchanged",
            "override minus exchanged: 1 if demonstrations decide, -1 if meanings do, 0 if both "
            "do equally often, or answers don't depend on texts",
            DIFFERENCE,
        ),
    ),
    (f.SKIPPED,),
)


ANALYSIS = Analysis(
    subject="whether demonstrations override the meaning of label words in {}",
    category=CAUSES,
    measured=Measured(
        twins=True,
        message="Exchanging what label words stand for, in {model} for {task}",
        reads={
            "texts": "texts",
            "samples": "samples",
            "tokenizer": "tokenizers",
            "prompts": "prompts",
            "model": "models",
        },
        scored=True,
        builds_prompts=True,
    ),
    summary=Summary({"override": "override", "compression": "compression", "prompts": "prompts"}),
    figure=Presented("Prior and override"),
    table=Tabulated(
        "Prior and override",
        note="The prior is the answer without demonstrations; the mapping is the word that stands "
        "for the true class in the demonstrations. Means over seeds with intervals over seeds and "
        "test texts. full: plain in-context learning; hidden_anchor: the anchors' keys and values "
        "alone; reweighted, reweighted_anchor: with β fitted to training texts with the same "
        "words. over_exchanged is above 0 where demonstrations decide most answers; below 0, "
        "override still says how many.",
        index=("task", "method", "words", "examples", "skipped"),
    ),
    asked_for="override.ways",
)
