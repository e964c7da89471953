"""What is retained in one setting of isolation compared with another ([A] §2.2).

[A] counts unchanged predictions (label loyalty). Claims are graded, since a network that mostly
gives one answer has few predictions to change.
"""

from collections.abc import Sequence
from functools import partial

import polars as pl

from anchorflow.analyses.isolation.summarize import loyalty_measures
from anchorflow.claims.claim import (
    DISCRIMINATING,
    Claim,
    Control,
    Isolated,
    NotMeasured,
    Run,
    Sampled,
)
from anchorflow.claims.effects import EFFECT_RETAINED, NO_EFFECT, Setting, difference_by_seed

READS = ("isolation", "attention")


LAYERS = 5  # N, the number of isolated layers in [A]


def isolation_over(run: Run, more: Sequence[Setting], less: Sequence[Setting]) -> Sampled:
    """What is retained in some settings minus that in others, with five layers isolated."""
    rows = run.rows("isolation")
    five = rows.filter(pl.col("layers") == LAYERS, pl.col("variant") == run.variant)
    if five.is_empty():
        raise NotMeasured(f"isolation.layers lacks {LAYERS}, the paper's number")
    for positions in sorted({str(keys["positions"]) for keys in (*more, *less)}):
        if five.filter(pl.col("positions") == positions).is_empty():
            raise NotMeasured(
                f"isolation.positions lacks {positions}, or a demonstration has no such token"
            )
    ends = {keys["side"] for keys in (*more, *less)}
    if len(ends) > 1 and "attention" in run.tables:
        depth = run.rows("attention")["layer"].n_unique()
        if depth == LAYERS:
            raise NotMeasured("all layers are isolated, so that the first are the last")
    if rows.filter(positions="hidden").is_empty():
        raise NotMeasured("the run lacks predictions without demonstrations; isolate again")
    others = rows.filter(pl.col("positions").is_in(["none", "hidden"]))
    measured = loyalty_measures(pl.concat([others, five]))
    return difference_by_seed(measured, more, less, "retained")


_LABEL, _RANDOM, _BEFORE, _AFTER = (
    {"positions": positions, "side": "first"}
    for positions in ("label", "random", "before", "after")
)


def first_over_last(run: Run, positions: str = "label") -> Sampled:
    """Retained with positions isolated in the last five layers minus in the first five."""
    last, first = ({"positions": positions, "side": side} for side in ("last", "first"))
    return isolation_over(run, [last], [first])


CLAIMS = (
    Claim(
        "isolation_label_over_random",
        "In early layers, isolating label words changes predictions more than isolating random "
        "tokens",
        "[A] §2.2",
        "effect of the demonstrations retained with random tokens isolated minus that with label "
        "words, first 5 layers",
        EFFECT_RETAINED,
        partial(isolation_over, more=[_RANDOM], less=[_LABEL]),
        Control.subtracted("random tokens of the demonstrations"),
        form=DISCRIMINATING,
        undefined=NO_EFFECT,
        over_depth=(
            Isolated("label words", "label", ("first",)),
            Isolated("random tokens", "random", ("first",)),
        ),
        figure="isolation",
        question="In early layers, does the answer need what label words gather?",
    ),
    Claim(
        "isolation_first_over_last",
        "Isolating label words changes predictions more in early than in late layers",
        "[A] §2.2",
        "effect of the demonstrations retained with label words isolated in the last 5 layers "
        "minus in the first 5",
        EFFECT_RETAINED,
        first_over_last,
        Control(
            "random tokens in place of the label words",
            partial(first_over_last, positions="random"),
        ),
        form=DISCRIMINATING,
        undefined=NO_EFFECT,
        over_depth=(Isolated("label words", "label", ("first", "last")),),
        figure="isolation",
    ),
    Claim(
        "isolation_label_over_neighbors",
        "In early layers, isolating label words changes predictions more than isolating the tokens "
        "next to them",
        "[A] §2.2",
        "effect of the demonstrations retained with the tokens before or after label words "
        "isolated, mean of the two, minus that with label words, first 5 layers",
        EFFECT_RETAINED,
        partial(isolation_over, more=[_BEFORE, _AFTER], less=[_LABEL]),
        Control.subtracted("the tokens before and after"),
        form=DISCRIMINATING,
        undefined=NO_EFFECT,
        over_depth=(
            Isolated("label words", "label", ("first",)),
            Isolated("tokens before", "before", ("first",)),
            Isolated("tokens after", "after", ("first",)),
        ),
        figure="isolation",
        question="Does it need label words more than the tokens next to them?",
        stricter_than="isolation_label_over_random",
    ),
)
