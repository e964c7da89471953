"""Shares of the three information flows S_wp, S_pq, and S_ww ([A] §2.1)."""

from collections.abc import Callable

from anchorflow.arrays import Array
from anchorflow.summarize.claims._claim import Curve, Depth, Run, Sampled
from anchorflow.summarize.claims._effects import mean_of_examples, sampled
from anchorflow.summarize.flow import FLOWS, SCALES, flows_and_shares

SHARE = "share of the three flows"


def shares(run: Run, flow: str) -> list[Array]:
    """A flow's share of the three, [examples, L] for each seed."""
    seeds = run.seeds("saliency")
    layers = run.rows("saliency")["layer"].n_unique()
    return [
        flows_and_shares(seed, layers)[..., FLOWS.index(flow), SCALES.index("proportion")]
        for seed in seeds
    ]


def flow_over(run: Run, more: str, less: str, where: Callable[[int], slice]) -> Sampled:
    """Share of one flow minus that of another, mean over a third of the layers."""
    pairs = zip(shares(run, more), shares(run, less), strict=True)
    differences = [first - second for first, second in pairs]
    seeds = [mean_of_examples(each[:, where(each.shape[1])].mean(1)) for each in differences]
    return sampled(run, seeds)


def flows_over_depth(*flows: str) -> Depth:
    """The shares of these flows in every layer."""
    curves = (Curve(f"S_{f[2:]}", "flow", {"flow": f, "scale": "proportion"}) for f in flows)
    return Depth(SHARE, tuple(curves))
