"""S_wp, the flow to the label words, in early compared with late layers ([A] §2.1)."""

from anchorflow.summarize.claims._claim import Claim, Run, Sampled
from anchorflow.summarize.claims._effects import mean_of_examples, sampled, several_layers
from anchorflow.summarize.claims._flow import SHARE, flows_over_depth, shares
from anchorflow.summarize.depth import first_third, last_third

READS = ("saliency",)


def flow_decay(run: Run) -> Sampled:
    """Share of S_wp in the first third of the layers minus that in the last third."""
    of_seeds = shares(run, "s_wp")
    layers = several_layers(of_seeds[0].shape[1])
    early, late = first_third(layers), last_third(layers)
    seeds = [mean_of_examples(each[:, early].mean(1) - each[:, late].mean(1)) for each in of_seeds]
    return sampled(run, seeds)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "flow_decays",
        "The flow from the texts to the label words is stronger early than late",
        "[A] §2.1",
        "S_wp, first third minus last third of the layers",
        SHARE,
        flow_decay,
        over_depth=flows_over_depth("s_wp"),
        place=2,
    ),
)
