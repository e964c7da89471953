"""Whether label words alone keep the answer where demonstrations are left out (after [A] §2)."""

import polars as pl

from anchorflow.depth import last_third
from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    UNTRAINED,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import UNCHANGED, difference_by_seed
from anchorflow.summarize.cutoffs import cutoff_measures

READS = ("cutoff",)


def seen_over_random(run: Run) -> Sampled:
    """Label loyalty with label words seen minus with as many other tokens, last third."""
    rows = run.rows("cutoff")
    depth = int(rows["layer"].to_numpy().max())
    begin = last_third(depth).start
    layer = rows.filter(pl.col("layer") >= begin)["layer"].to_numpy().min()
    if layer == depth:
        raise NotTested("the run leaves no demonstrations out in the last third (cutoff.every)")
    settings = [{"sees": sees, "layer": int(layer)} for sees in ("label", "random")]
    return difference_by_seed(cutoff_measures(rows), settings[:1], settings[1:], "label_loyalty")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "label_words_suffice_late",
        "Late, label words are enough of the demonstrations, and other tokens are not",
        "[A] §2",
        "label loyalty with only label words seen in the last third of the layers minus with as "
        "many other tokens",
        UNCHANGED,
        seen_over_random,
        Control("as many other tokens, which the effect is the difference from"),
        UNTRAINED,
        DISCRIMINATING,
        place=4,
    ),
)
