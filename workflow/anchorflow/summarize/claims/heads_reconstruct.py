"""Kernel regression with one head's attention compared with a constant ([K] §5.2 and §5.5)."""

from anchorflow.summarize.claims._claim import Claim, Control, Curve, Depth, Run, Sampled
from anchorflow.summarize.claims._effects import minus
from anchorflow.summarize.claims._heads import NO_OTHERS, candidates

READS = ("kernel", "kernel_predictions")


def head_over_constant(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that of a constant prediction.

    Head and constant are both chosen on one half of the texts and scored on the other. The constant
    is the label that the model predicts most often there with the seed's demonstrations.
    """
    heads = candidates(run)
    return minus(heads.held_out(heads.agreement, heads.best()), heads.held_out(heads.of_constant()))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "heads_reconstruct",
        "Attention of one head, as kernel weights, predicts what the model predicts",
        "[K] §5.5",
        "held-out agreement of the best head minus that of a held-out constant, the model's most "
        "frequent answer",
        "share of predictions agreeing",
        head_over_constant,
        Control("the constant, which the effect is the difference from"),
        undefined=NO_OTHERS,
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "heads", {"measure": "agreement", "weights": "max"}),),
        ),
    ),
)
