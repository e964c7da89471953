"""A head's kernel regression with its weights given to other demonstrations ([K] §5.5)."""

from anchorflow.summarize.claims._claim import DISCRIMINATING, Claim, Control, Run, Sampled
from anchorflow.summarize.claims._effects import minus
from anchorflow.summarize.claims._heads import NO_OTHERS, candidates

READS = ("kernel", "kernel_predictions")


def paired_over_permuted(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that with its weights permuted."""
    heads = candidates(run)
    best = heads.best()
    return minus(heads.held_out(heads.agreement, best), heads.held_out(heads.permuted, best))


def constant_over_permuted(run: Run) -> Sampled:
    """The same with a held-out constant in the head's place.

    Where the model always gives the same answer, so do some of its heads by chance, and permuted
    weights lower their agreement too.
    """
    heads = candidates(run)
    permuted = heads.held_out(heads.permuted, heads.best())
    return minus(heads.held_out(heads.of_constant()), permuted)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "heads_need_pairing",
        "Giving a head's weights to other demonstrations lowers its agreement with the model",
        "[K] §5.5",
        "held-out agreement of the best head minus that with its weights permuted among the "
        "demonstrations",
        "share of predictions agreeing",
        paired_over_permuted,
        Control("a held-out constant in the head's place", constant_over_permuted),
        form=DISCRIMINATING,
        undefined=NO_OTHERS,
        place=3,
    ),
)
