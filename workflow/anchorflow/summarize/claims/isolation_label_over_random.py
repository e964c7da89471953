"""Isolation of label words compared with random tokens in the first layers ([A] §2.2)."""

from functools import partial

from anchorflow.summarize.claims._claim import Claim, Isolated
from anchorflow.summarize.claims._effects import UNCHANGED
from anchorflow.summarize.claims._isolation import isolation_over

READS = ("isolation",)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "isolation_label_over_random",
        "Early, cutting label words off changes more predictions than cutting random tokens off",
        "[A] §2.2",
        "label loyalty with random tokens isolated minus with label words, in the first N layers",
        UNCHANGED,
        partial(
            isolation_over,
            more={"positions": "random", "side": "first"},
            less={"positions": "label", "side": "first"},
        ),
        over_depth=(
            Isolated("label words", "label", ("first",)),
            Isolated("random tokens", "random", ("first",)),
        ),
        place=1,
    ),
)
