"""S_wp, the flow to the label words, in early compared with late layers ([A] §2.1)."""

from collections.abc import Mapping

from anchorflow.arrays import Array
from anchorflow.summarize.claims._claim import UNTRAINED, Claim, Run, Sampled
from anchorflow.summarize.claims._effects import several_layers
from anchorflow.summarize.claims._flow import (
    SHARE,
    TEXT_TOKEN,
    early_minus_late,
    flows_over_depth,
    of_layers,
    share_of,
)

READS = ("saliency",)


def flow_decay(run: Run, matched: str = "") -> Sampled:
    """Share of S_wp in the first third of the layers minus that in the last third."""
    several_layers(run.rows("saliency")["layer"].n_unique())
    into, *others = (f"{flow}{matched}" for flow in ("s_wp", "s_pq", "s_ww"))

    def values(columns: Mapping[str, Array]) -> Array:
        return early_minus_late(share_of(columns, into, tuple(others)))

    return of_layers(run, (into, *others), values)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "flow_decays",
        "The flow into the label words is stronger early than late",
        "[A] §2.1",
        "S_wp, first third minus last third of the layers",
        SHARE,
        flow_decay,
        TEXT_TOKEN.of(flow_decay),
        UNTRAINED,
        over_depth=flows_over_depth("s_wp"),
        place=2,
    ),
)
