"""What cutting label words off from the target changes, beside random edges (after [A] §2)."""

import polars as pl

from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    UNTRAINED,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import difference_by_seed
from anchorflow.summarize.knockouts import knockout_measures

READS = ("knockout",)


def cut_over_random(run: Run) -> Sampled:
    """Mean absolute change of the loss with S_pq's edges cut minus with random ones, last third."""
    changes = knockout_measures(run.rows("knockout"))
    edges, random = (
        {"edges": "label_to_target", "band": "last", "control": control}
        for control in (False, True)
    )
    for setting, lacking in (
        (edges, "label_to_target in the last third (knockout.classes, knockout.layers)"),
        (random, "random edges in place of these (knockout.draws)"),
    ):
        if changes.filter(pl.col(name) == value for name, value in setting.items()).is_empty():
            raise NotTested(f"the run does not cut {lacking}")
    return difference_by_seed(changes, [edges], [random], "loss_size")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "cutting_label_words",
        "Late, cutting label words off from the target changes the answer more than cutting random "
        "tokens off",
        "[A] §2",
        "absolute change of the loss with attention from the target to label words cut, minus with "
        "as many random keys near them, last third of the layers",
        "nats",
        cut_over_random,
        Control("random keys of the same row, which the effect is the difference from"),
        UNTRAINED,
        DISCRIMINATING,
        bounded=False,
        place=1,
    ),
)
