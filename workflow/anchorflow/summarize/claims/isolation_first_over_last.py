"""Isolation of label words in the first compared with the last layers ([A] §2.2)."""

from functools import partial

from anchorflow.summarize.claims._claim import UNTRAINED, Claim, Control, Isolated, Run, Sampled
from anchorflow.summarize.claims._effects import UNCHANGED
from anchorflow.summarize.claims._isolation import isolation_over

READS = ("isolation", "attention")


def first_over_last(run: Run, positions: str = "label") -> Sampled:
    """Label loyalty with positions isolated in the last five layers minus in the first five."""
    last, first = ({"positions": positions, "side": side} for side in ("last", "first"))
    return isolation_over(run, [last], [first])


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "isolation_first_over_last",
        "Cutting label words off changes more predictions early than late",
        "[A] §2.2",
        "label loyalty with label words isolated in the last 5 layers minus in the first 5",
        UNCHANGED,
        first_over_last,
        Control(
            "random tokens in place of the label words",
            partial(first_over_last, positions="random"),
        ),
        UNTRAINED,
        over_depth=(Isolated("label words", "label", ("first", "last")),),
        place=2,
    ),
)
