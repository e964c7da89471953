"""Effect of other label words on predictions, flows, loyalty and AUCROC."""

from anchorflow.config.analysis import INFORMATION, Analysis, Presented, Summary

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
