"""How well attention to the label words predicts the model's answer ([A] §2.3).

AUCROC_l of [A] needs answers of several labels, which an untrained network rarely gives. Claims are
therefore about its graded form, which takes the labels' probabilities in place of the answer and is
0.5 for any attention that has nothing to do with them.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from anchorflow.analyses.attention.summarize import graded_auc, to_other_tokens
from anchorflow.arrays import Array
from anchorflow.claims.claim import Claim, Control, Curve, Depth, NotMeasured, Run, Sampled
from anchorflow.claims.effects import mean_of_layers
from anchorflow.depth import first_third, last_third
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import SeedStatistic, Statistic

READS = ("attention", "predictions", "prompts")


TELLS_NOTHING = "in no seed do the labels' probabilities differ between texts"


def of_auc(run: Run, effect: Callable[[Array], Array], others: bool = False) -> Sampled:
    """An effect of the graded AUCROC_l in each seed, [R, L] to [R, 1].

    ``others`` takes the mean attention to the other tokens of each demonstration in place of that
    to its label word.
    """
    if run.rows("attention")["layer"].n_unique() == 1:
        raise NotMeasured("the model has a single layer")
    predictions = run.by_seed("predictions")
    prompts = run.by_seed("prompts") if others else {}
    seeds = {}
    for seed, rows in run.by_seed("attention").items():
        attention = to_other_tokens(rows, prompts[seed]) if others else rows
        auc = graded_auc(attention, predictions[seed])
        seeds[seed] = SeedStatistic(partial(_effect_of, auc, effect), texts_of(predictions[seed]))
    return Sampled(seeds)


def _effect_of(auc: Statistic, effect: Callable[[Array], Array], weights: Array) -> Array:
    return effect(auc(weights))


def other_tokens(effect: Callable[[Array], Array]) -> Control:
    """The control of an effect of AUCROC_l.

    Assigning label words' attention to other labels would be no control: averaged over all
    rotations of the labels, including the identity, any attention is near 0.5.
    """
    return Control(
        "the other tokens of each demonstration in place of its label word",
        partial(of_auc, effect=effect, others=True),
    )


def rise(auc: Array) -> Array:
    """Mean of [..., L] over the last third of the layers minus that over the first third."""
    layers = auc.shape[-1]
    return mean_of_layers(auc, last_third(layers)) - mean_of_layers(auc, first_third(layers))


def late_gain(auc: Array) -> Array:
    """Σ (A_l − 0.5) over the upper half of the layers minus that over the lower half, A_l graded.

    Divided by half of the number of layers; with an odd number, the middle layer is in neither
    half. R_l of AUCROC_l is the sum up to l as a share of the total, noise where attention predicts
    nothing; where the total is above 0, the difference has the sign of 1 - 2 R_{L/2}.

    Source: Wang et al. 2023, eq. 5; deep layers are the upper half (footnote 2).
    """
    excess, half = np.nan_to_num(auc - 0.5), auc.shape[-1] // 2
    difference: Array = excess[..., -half:].mean(-1) - excess[..., :half].mean(-1)
    undefined = np.isnan(auc).all(-1)
    return np.where(undefined, np.nan, difference)[..., None]


_GRADED = Depth("graded AUCROC_l", (Curve("graded AUCROC_l", "attention", {"measure": "graded"}),))

CLAIMS = (
    Claim(
        "deep_auc_rises",
        "Attention to the label words predicts the model's answer better in late than in early "
        "layers",
        "[A] §2.3",
        "share of pairs of texts of which that with more attention to a label's words gives the "
        "label a higher probability, last third minus first third of the layers",
        "share of pairs",
        partial(of_auc, effect=rise),
        other_tokens(rise),
        undefined=TELLS_NOTHING,
        over_depth=_GRADED,
        figure="attention",
        question="Does attention to label words predict the answer, and more so in late layers?",
    ),
    Claim(
        "deep_gain_late",
        "Attention to the label words gains most of its predictive power in the upper half of the "
        "layers",
        "[A] §2.3",
        "share of pairs of texts of which that with more attention to a label's words gives the "
        "label a higher probability, upper half minus lower half of the layers",
        "share of pairs",
        partial(of_auc, effect=late_gain),
        other_tokens(late_gain),
        undefined=TELLS_NOTHING,
        over_depth=_GRADED,
        figure="attention",
    ),
)
