"""Isolation of label words in the first compared with the last layers ([A] §2.2)."""

from functools import partial

from anchorflow.summarize.claims._claim import Claim, Isolated
from anchorflow.summarize.claims._effects import UNCHANGED
from anchorflow.summarize.claims._isolation import isolation_over

READS = ("isolation", "attention")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "isolation_first_over_last",
        "Cutting label words off changes more predictions early than late",
        "[A] §2.2",
        "label loyalty with label words isolated in the last N layers minus in the first N",
        UNCHANGED,
        partial(
            isolation_over,
            more={"positions": "label", "side": "last"},
            less={"positions": "label", "side": "first"},
        ),
        over_depth=(Isolated("label words", "label", ("first", "last")),),
        place=2,
    ),
)
