"""S_pq (to the target) compared with S_wp (to the label words) in late layers ([A] §2.1)."""

from functools import partial

from anchorflow.depth import last_third
from anchorflow.summarize.claims._claim import UNTRAINED, Claim
from anchorflow.summarize.claims._flow import SHARE, TEXT_TOKEN, flow_over, flows_over_depth

READS = ("saliency",)

_effect = partial(flow_over, more="s_pq", less="s_wp", where=last_third)

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "flow_late",
        "Late, more flows from the label words to the target than into them",
        "[A] §2.1",
        "S_pq minus S_wp, last third of the layers",
        SHARE,
        _effect,
        TEXT_TOKEN.of(_effect),
        UNTRAINED,
        over_depth=flows_over_depth("s_pq", "s_wp"),
        place=3,
    ),
)
