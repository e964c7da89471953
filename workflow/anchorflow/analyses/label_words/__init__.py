"""Effect of other label words on predictions, flows, loyalty and AUCROC."""

from anchorflow.config.analysis import INFORMATION, Analysis, Presented, Summary
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

LABEL_WORDS_SUMMARY = table(
    "label_words_summary",
    "one per (task, words, measure), and per layer if the measure is by layer",
    f.MODEL,
    Column(
        "task",
        "string",
        "name of the task, or 'average' for the mean over all tasks that have other label words, "
        "null for words that some of them lack",
    ),
    Column(
        "words",
        "string",
        "words: the task's own label words; otherwise the name of others in the configuration",
    ),
    Column(
        "measure",
        "string",
        "accuracy; separation: mean AUC of label pairs, which a preference for one word does not "
        "change; accuracy_change: accuracy minus that with the task's own words on the same "
        "texts; follows_meaning: accuracy if a predicted word counts as the label that it has "
        "among the own words, for permutations of these; auc: AUCROC_l of the attention to label "
        "words; auc_late: its mean over the last third of the layers; s_wp_share, s_pq_share: "
        "S_wp and S_pq divided by S_wp + S_pq + S_ww of the same example; s_wp_early, s_pq_late: "
        "their means over the first and the last third of the layers; loyalty_label, "
        "loyalty_random: share of unchanged predictions when label words, or random "
        "tokens, are isolated in the largest number of first layers; loyalty_drop: "
        "the second minus the first",
    ),
    Column("layer", "int32", "transformer layer; null unless by layer"),
    Column("mean", "float64", "mean over seeds; null if undefined", "1"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task words measure layer",
)


ANALYSIS = Analysis(
    subject="the effect of other label words in {}",
    category=INFORMATION,
    summary=Summary(
        {
            "predictions": "attention/predictions",
            "attention": "attention/attention",
            "flow": "flow",
            "isolation": "isolation",
            "prompts": "prompts",
        },
        ("statistics", "label_words"),
        with_words=True,
    ),
    figure=Presented("Other label words", settings=("label_word_sets",)),
    table=Presented("Other label words"),
)
