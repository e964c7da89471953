"""What flows to the target from label words against other tokens, in late layers ([A] §2.1)."""

from collections.abc import Mapping

from anchorflow.arrays import Array
from anchorflow.depth import last_third
from anchorflow.summarize.claims._claim import DISCRIMINATING, UNTRAINED, Claim, Run, Sampled
from anchorflow.summarize.claims._effects import several_layers
from anchorflow.summarize.claims._flow import (
    OF_TWO,
    OTHERS,
    TEXT_TOKEN,
    early_minus_late,
    of_layers,
    share_from,
)
from anchorflow.summarize.statistics import mean_where_defined

READS = ("saliency",)


def from_label_words(run: Run, matched: str = "") -> Sampled:
    """S_pq's share in it and what flows from another token of the demonstrations, less a half."""
    source = f"s_pq{matched}"

    def values(columns: Mapping[str, Array]) -> Array:
        share = share_from(columns, source)
        return mean_where_defined(share[:, last_third(share.shape[1])], 1) - 0.5

    return of_layers(run, (source, *OTHERS), values)


def rise(run: Run, matched: str = "") -> Sampled:
    """The share of :func:`from_label_words` in the last minus the first third of the layers."""
    several_layers(run.rows("saliency")["layer"].n_unique())
    source = f"s_pq{matched}"

    def values(columns: Mapping[str, Array]) -> Array:
        return -early_minus_late(share_from(columns, source))

    return of_layers(run, (source, *OTHERS), values)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "flow_from_label_words",
        "Late, more flows to the target from a label word than from another token of its "
        "demonstration",
        "[A] §2.1",
        "share of S_pq in S_pq and the flow from text and template tokens, minus 0.5, last third "
        "of the layers",
        OF_TWO,
        from_label_words,
        TEXT_TOKEN.of(from_label_words),
        UNTRAINED,
        DISCRIMINATING,
        place=7,
    ),
    Claim(
        "flow_from_label_words_rises",
        "Label words' share of what flows to the target rises with depth",
        "[A] §2.1",
        "share of S_pq in S_pq and the flow from text and template tokens, last third minus first "
        "third of the layers",
        OF_TWO,
        rise,
        TEXT_TOKEN.of(rise),
        UNTRAINED,
        DISCRIMINATING,
        place=8,
    ),
)
