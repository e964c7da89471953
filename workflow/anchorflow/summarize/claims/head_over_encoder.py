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
    return minus(heads.held_out(heads.agreement, heads.best()), heads.held_out(_of_encoder(run)))


def constant_over_encoder(run: Run) -> Sampled:
    """The same with a held-out constant in the head's place."""
    heads = candidates(run)
    return minus(heads.held_out(heads.of_constant()), heads.held_out(_of_encoder(run)))


def _of_encoder(run: Run) -> dict[int, Array]:
    """Agreement of the encoder's kernel regression in each seed, [examples, 1]."""
    return {
        seed: encoder_agreement(run, told, None)[:, np.newaxis]
        for seed, told in run.by_seed("kernel_predictions").items()
    }


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "head_over_encoder",
        "A head's kernel regression predicts what the model predicts better than an encoder's",
        "[K] §5.5, Table 2",
        "held-out agreement of the best head minus that of kernel regression with the sentence "
        "encoder",
        "share of predictions agreeing",
        head_over_encoder,
        Control("a held-out constant in the head's place", constant_over_encoder),
        undefined=NO_OTHERS,
        place=1,
    ),
)
