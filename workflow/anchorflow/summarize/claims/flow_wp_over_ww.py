"""S_wp (to the label words) compared with S_ww (all other flow) in early layers ([A] §2.1)."""

from functools import partial

from anchorflow.depth import first_third
from anchorflow.summarize.claims._claim import UNTRAINED, Claim
from anchorflow.summarize.claims._flow import SHARE, TEXT_TOKEN, flow_over, flows_over_depth

READS = ("saliency",)

_effect = partial(flow_over, more="s_wp", less="s_ww", where=first_third)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "flow_wp_over_ww",
        "Early, more flows to the label words than between other tokens",
        "[A] §2.1",
        "S_wp minus S_ww, first third of the layers",
        SHARE,
        _effect,
        TEXT_TOKEN.of(_effect),
        UNTRAINED,
        over_depth=flows_over_depth("s_wp", "s_ww"),
        place=4,
    ),
)
