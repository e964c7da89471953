"""Isolation of label words compared with other tokens in the first layers ([A] §2.2)."""

from functools import partial

from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    UNTRAINED,
    Claim,
    Control,
    Isolated,
)
from anchorflow.summarize.claims._effects import UNCHANGED
from anchorflow.summarize.claims._isolation import isolation_over

READS = ("isolation",)

_LABEL, _RANDOM, _BEFORE, _AFTER = (
    {"positions": positions, "side": "first"}
    for positions in ("label", "random", "before", "after")
)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "isolation_label_over_random",
        "Early, cutting label words off changes more predictions than cutting random tokens off",
        "[A] §2.2",
        "label loyalty with random tokens isolated minus with label words, in the first 5 layers",
        UNCHANGED,
        partial(isolation_over, more=[_RANDOM], less=[_LABEL]),
        Control("random tokens of the demonstrations, which the effect is the difference from"),
        UNTRAINED,
        over_depth=(
            Isolated("label words", "label", ("first",)),
            Isolated("random tokens", "random", ("first",)),
        ),
        place=1,
    ),
    Claim(
        "isolation_label_over_neighbors",
        "Early, cutting label words off changes more predictions than cutting off the tokens next "
        "to them",
        "[A] §2.2",
        "label loyalty with the tokens before and after label words isolated, mean of the two, "
        "minus with label words, in the first 5 layers",
        UNCHANGED,
        partial(isolation_over, more=[_BEFORE, _AFTER], less=[_LABEL]),
        Control("the tokens before and after, which the effect is the difference from"),
        UNTRAINED,
        DISCRIMINATING,
        over_depth=(
            Isolated("label words", "label", ("first",)),
            Isolated("tokens before", "before", ("first",)),
            Isolated("tokens after", "after", ("first",)),
        ),
        place=3,
    ),
)
