"""What flows into label words against text tokens, per preceding token, in early layers."""

from collections.abc import Mapping

from anchorflow.arrays import Array
from anchorflow.depth import first_third
from anchorflow.summarize.claims._claim import DISCRIMINATING, UNTRAINED, Claim, Run, Sampled
from anchorflow.summarize.claims._flow import BEFORE, OF_TWO, of_layers, share_of
from anchorflow.summarize.statistics import mean_where_defined

READS = ("saliency",)


def into_label_words(run: Run, matched: str = "") -> Sampled:
    """S_wp's share of itself and S_wp of one random token of each text, less a half."""
    into = f"s_wp{matched}"

    def values(columns: Mapping[str, Array]) -> Array:
        share = share_of(columns, into, ("s_wp_text",))
        return mean_where_defined(share[:, first_third(share.shape[1])], 1) - 0.5

    return of_layers(run, (into, "s_wp_text"), values)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "flow_into_label_words",
        "Early, more flows into a label word than into a token of its text",
        "[A] §2.1",
        "share of S_wp in it and that of random text tokens, minus 0.5, first third of the layers",
        OF_TWO,
        into_label_words,
        BEFORE.of(into_label_words),
        UNTRAINED,
        DISCRIMINATING,
        place=6,
    ),
)
