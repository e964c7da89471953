"""AUCROC_l of attention to the label words in late compared with early layers ([A] §2.3)."""

from anchorflow.summarize.claims._claim import Claim, Curve, Depth, Run, Sampled
from anchorflow.summarize.claims._deep import TELLS_NOTHING, auc_by_seed
from anchorflow.summarize.claims._effects import mean_of_layers, sampled
from anchorflow.summarize.depth import first_third, last_third

READS = ("attention", "predictions")


def auc_rise(run: Run) -> Sampled:
    """AUCROC_l, mean of the last third of the layers minus that of the first third."""
    seeds, layers = auc_by_seed(run)
    early, late = first_third(layers), last_third(layers)
    return sampled(run, seeds, lambda auc: mean_of_layers(auc, late) - mean_of_layers(auc, early))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "deep_auc_rises",
        "Attention to the label words tells the model's answer better late than early",
        "[A] §2.3",
        "AUCROC_l, last third minus first third of the layers",
        "AUC",
        auc_rise,
        TELLS_NOTHING,
        over_depth=Depth("AUCROC_l", (Curve("AUCROC_l", "deep", {"measure": "auc"}),)),
        place=1,
    ),
)
