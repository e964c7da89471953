"""Agreement of the best head's kernel regression by number of demonstrations ([K] §4.1)."""

from anchorflow.summarize.claims._claim import Claim, Control, Run, Sampled
from anchorflow.summarize.claims._effects import minus
from anchorflow.summarize.claims._heads import NO_OTHERS, candidates, candidates_with_fewest

READS = ("counts", "kernel", "kernel_predictions")


def head_agreement_gained(run: Run, measure: str = "agreement") -> Sampled:
    """Held-out agreement of the best head, all demonstrations minus the fewest, paired.

    The head is chosen anew for the fewest, so that it is no worse a choice there. As ``permuted``,
    the same heads' agreement with the labels permuted among the demonstrations.

    Raises
    ------
    NotTested
        If there is only one number of demonstrations, or no text to score a head on.
    """
    few, every = candidates_with_fewest(run), candidates(run)
    return minus(
        every.held_out(getattr(every, measure), every.best()),
        few.held_out(getattr(few, measure), few.best()),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "head_agreement_grows",
        "With more demonstrations, a head's kernel regression agrees more with the model",
        "[K] §4.1",
        "held-out agreement of the best head, with as many demonstrations as the budget allows "
        "minus with the fewest, the head chosen for each",
        "share of predictions agreeing",
        head_agreement_gained,
        Control(
            "labels permuted among the demonstrations",
            lambda run: head_agreement_gained(run, "permuted"),
        ),
        undefined=NO_OTHERS,
        place=2,
    ),
)
