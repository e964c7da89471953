"""Label loyalty in one setting of isolation compared with another ([A] §2.2)."""

import polars as pl

from anchorflow.summarize.claims._claim import NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import Setting, difference_by_seed, sampled
from anchorflow.summarize.loyalty import loyalty_measures


def isolation_over(run: Run, more: Setting, less: Setting) -> Sampled:
    """Label loyalty in one setting minus that in another, for the largest number of layers.

    Raises
    ------
    NotTested
        If the settings are at different ends of the model and all layers are isolated.
    """
    rows = run.rows("isolation")
    most = rows["layers"].max()
    ends_differ = more.get("side") != less.get("side")
    if ends_differ and most == run.rows("attention")["layer"].n_unique():
        raise NotTested("all layers are isolated, so that the first are the last")
    isolated = (pl.col("variant") == run.variant) & (pl.col("layers") == most)
    measured = loyalty_measures(rows.filter(isolated | (pl.col("positions") == "none")))
    return sampled(run, difference_by_seed(run, measured, more, less, "label_loyalty"))
