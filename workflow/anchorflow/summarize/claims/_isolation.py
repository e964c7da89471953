"""Label loyalty in one setting of isolation compared with another ([A] §2.2)."""

from collections.abc import Sequence

import polars as pl

from anchorflow.summarize.claims._claim import NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import Setting, difference_by_seed
from anchorflow.summarize.loyalty import loyalty_measures

LAYERS = 5  # N, the number of isolated layers in [A]


def isolation_over(run: Run, more: Sequence[Setting], less: Sequence[Setting]) -> Sampled:
    """Label loyalty in some settings minus that in others, with five layers isolated.

    Raises
    ------
    NotTested
        If five layers were not isolated, or positions were not, or the settings are at different
        ends of a model that five layers cover.
    """
    rows = run.rows("isolation")
    five = rows.filter(pl.col("layers") == LAYERS, pl.col("variant") == run.variant)
    if five.is_empty():
        raise NotTested(f"isolation.layers lacks {LAYERS}, the paper's number")
    for positions in sorted({str(each["positions"]) for each in (*more, *less)}):
        if five.filter(pl.col("positions") == positions).is_empty():
            raise NotTested(
                f"isolation.positions lacks {positions}, or a demonstration has no such token"
            )
    ends = {each["side"] for each in (*more, *less)}
    if len(ends) > 1 and "attention" in run.tables:
        depth = run.rows("attention")["layer"].n_unique()
        if depth == LAYERS:
            raise NotTested("all layers are isolated, so that the first are the last")
    untouched = rows.filter(pl.col("positions") == "none")
    measured = loyalty_measures(pl.concat([untouched, five]))
    return difference_by_seed(measured, more, less, "label_loyalty")
