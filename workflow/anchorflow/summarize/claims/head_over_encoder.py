"""A head's kernel regression compared with a sentence encoder's ([K] §5.5, Table 2)."""

import numpy as np

from anchorflow.arrays import Array
from anchorflow.summarize.claims._claim import Claim, Control, Run, Sampled
from anchorflow.summarize.claims._effects import minus
from anchorflow.summarize.claims._encoder import encoder_agreement
from anchorflow.summarize.claims._heads import NO_OTHERS, candidates

READS = ("kernel", "kernel_predictions", "kernel_samples", "embeddings")


def head_over_encoder(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that of the encoder's kernel regression."""
    heads = candidates(run)
    of_encoder: dict[int, Array] = {
        seed: encoder_agreement(run, told, None)[:, np.newaxis]
        for seed, told in run.by_seed("kernel_predictions").items()
    }
    return minus(heads.held_out(heads.agreement, heads.best()), heads.held_out(of_encoder))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "head_over_encoder",
        "A head's kernel regression predicts what the model predicts better than an encoder's",
        "[K] §5.5, Table 2",
        "held-out agreement of the best head minus that of kernel regression with the sentence "
        "encoder",
        "share of predictions agreeing",
        head_over_encoder,
        Control("the encoder's kernel, which the effect is the difference from"),
        undefined=NO_OTHERS,
        place=1,
    ),
)
