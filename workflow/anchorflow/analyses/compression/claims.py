"""What anchors retain of the demonstrations, beyond other caches ([A] §3.2)."""

from functools import partial

import polars as pl

from anchorflow.analyses.compression.summarize import retention_measures
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import (
    EFFECT_RETAINED,
    NO_EFFECT,
    Setting,
    difference_by_seed,
    rows_with,
)

READS = ("compression", "prompts")


def anchors_over(run: Run, method: str, measure: str) -> Sampled:
    """A measure of retention with the anchors minus that with another method.

    Word loyalty leaves out the label words' first tokens, which any network may keep by copying.
    Texts for which no whole demonstration fits do not count: there is no prompt to compare with.
    """
    rows = run.rows("compression")
    if measure == "word_loyalty":
        rows = rows.with_columns(
            pl.col("top_tokens").list.set_difference(_label_tokens(run.rows("prompts")))
        )
    if measure == "retained" and rows_with(rows, {"method": "first_only"}).is_empty():
        raise NotMeasured("the run lacks predictions without demonstrations; compress again")
    for name in ("hidden_anchor", method):
        if rows_with(rows, {"method": name, "share": None}).is_empty():
            wanted = f"compression: {{methods: [hidden_anchor, {method}]}}"
            raise NotMeasured(f"compression.methods lacks {name}", wanted)
    anchors, others = ({"method": name, "share": None} for name in ("hidden_anchor", method))
    empty = _without_any(rows, others)
    measured = retention_measures(rows).join(empty, on=["seed", "example"], how="anti")
    if measured.is_empty():
        raise NotMeasured("no whole demonstration fits the number of anchors in this task")
    return difference_by_seed(measured, [anchors], [others], measure)


def _without_any(rows: pl.DataFrame, others: Setting) -> pl.DataFrame:
    """Seeds and examples for which a method keeps what is kept without demonstrations."""
    nothing = rows_with(rows, {"method": "first_only"})
    same = ["seed", "example", "kept"]
    return rows_with(rows, others).join(nothing, on=same, how="semi").select("seed", "example")


def _label_tokens(prompts: pl.DataFrame) -> list[int]:
    """The first tokens of all label words, from the prompts of a task."""
    first = prompts.filter(pl.col("skipped").is_null()).select(
        pl.col("token_ids").list.gather(pl.col("label_positions")).explode().unique()
    )
    return first.to_series().sort().to_list()


_MEASURED = {"retained": "effect of the demonstrations retained", "word_loyalty": "word loyalty"}

# The paper counts unchanged labels (label loyalty), of which anything keeps most where a model
# prefers one answer. What is retained is graded instead.
CLAIMS = tuple(
    Claim(
        name,
        f"Anchors retain {what} better than {described}",
        "[A] §3.2, Table 2",
        f"{_MEASURED[measure]} with hidden_anchor minus that with {method}"
        + ", without label words" * (measure == "word_loyalty"),
        unit,
        partial(anchors_over, method=method, measure=measure),
        Control.subtracted(described),
        form=DISCRIMINATING,
        undefined=NO_EFFECT,
        figure="compression",
        question=question,
    )
    for name, method, described, measure, what, unit, question in (
        (
            "anchors_over_text",
            "text_anchor",
            "the anchors as text",
            "retained",
            "the demonstrations' effect",
            EFFECT_RETAINED,
            "Do anchors keep the answers better than the same words as text?",
        ),
        (
            "anchors_over_fewer",
            "text_fewer_balanced",
            "whole demonstrations of as many tokens, in a prompt of their own",
            "retained",
            "the demonstrations' effect",
            EFFECT_RETAINED,
            "Do anchors keep the answers better than a prompt of fewer demonstrations?",
        ),
        (
            "anchors_over_random",
            "hidden_random",
            "random tokens in place of label words",
            "retained",
            "the demonstrations' effect",
            EFFECT_RETAINED,
            "",
        ),
        (
            "anchors_over_random_words",
            "hidden_random",
            "random tokens in place of label words",
            "word_loyalty",
            "most likely words",
            "Jaccard similarity",
            "Do anchors keep the likeliest words better than random tokens?",
        ),
    )
)
