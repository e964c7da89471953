"""AUCROC_l of attention to the label words in late compared with early layers ([A] §2.3)."""

from functools import partial

from anchorflow.arrays import Array
from anchorflow.depth import first_third, last_third
from anchorflow.summarize.claims._claim import UNTRAINED, Claim, Curve, Depth
from anchorflow.summarize.claims._deep import TELLS_NOTHING, of_auc, other_tokens
from anchorflow.summarize.claims._effects import mean_of_layers

READS = ("attention", "predictions", "prompts")


def rise(auc: Array) -> Array:
    """Mean of [..., L] over the last third of the layers minus that over the first third."""
    layers = auc.shape[-1]
    return mean_of_layers(auc, last_third(layers)) - mean_of_layers(auc, first_third(layers))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "deep_auc_rises",
        "Attention to the label words tells the model's answer better late than early",
        "[A] §2.3",
        "AUCROC_l, last third minus first third of the layers",
        "AUC",
        partial(of_auc, effect=rise),
        other_tokens(rise),
        UNTRAINED,
        undefined=TELLS_NOTHING,
        over_depth=Depth("AUCROC_l", (Curve("AUCROC_l", "deep", {"measure": "auc"}),)),
        place=1,
    ),
)
