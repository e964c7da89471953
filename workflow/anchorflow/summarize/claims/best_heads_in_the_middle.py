"""Agreement of the best heads of middle compared with other layers ([K] §5.2)."""

import polars as pl

from anchorflow.depth import first_third, last_third
from anchorflow.summarize.claims._claim import Claim, Control, Curve, Depth, NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import minus
from anchorflow.summarize.claims._heads import NO_OTHERS, candidates

READS = ("kernel", "kernel_predictions")


def middle_over_others(run: Run) -> Sampled:
    """Held-out agreement of each layer's best head, middle third minus the other layers.

    Raises
    ------
    NotTested
        If there are fewer than three layers.
    """
    heads = candidates(run)
    depth = heads.heads["layer"].n_unique()
    if depth < 3:
        raise NotTested("a middle needs three layers or more")
    best = [heads.best(pl.col("layer") == layer) for layer in range(depth)]
    early, late = best[first_third(depth)], best[last_third(depth)]
    middle = best[len(early) : depth - len(late)]
    return minus(
        heads.held_out(heads.agreement, *middle), heads.held_out(heads.agreement, *early, *late)
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "best_heads_in_the_middle",
        "The heads whose attention predicts what the model predicts lie in middle layers",
        "[K] §5.2, Fig. 3",
        "held-out agreement of each layer's best head, middle third minus first and last third",
        "share of predictions agreeing",
        middle_over_others,
        Control("the first and the last third, which the effect is the difference from"),
        undefined=NO_OTHERS,
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "heads", {"measure": "agreement", "weights": "max"}),),
        ),
        place=2,
    ),
)
