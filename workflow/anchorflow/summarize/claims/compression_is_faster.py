"""Time per query with the anchors cached, compared with full prompts ([A] Table 3)."""

from functools import partial

import polars as pl

from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    QUARTILES,
    Claim,
    Control,
    NotTested,
    Run,
    Timed,
)

READS = ("timing",)


def time_saved(run: Run, over: str) -> Timed:
    """Ratio of the time per query in another way to that with the anchors, minus 1.

    The bounds compare the closest and the farthest quartiles.

    Raises
    ------
    NotTested
        If one of the two was not timed.
    """
    timing = run.rows("timing")
    ways = {row["way"]: row for row in timing.iter_rows(named=True)}
    if lacking := {over, "hidden_anchor"} - set(ways):
        raise NotTested(f"{' and '.join(sorted(lacking))} was not timed")
    other, anchors = ways[over], ways["hidden_anchor"]
    return Timed(
        other["milliseconds"] / anchors["milliseconds"] - 1,
        other["low"] / anchors["high"] - 1,
        other["high"] / anchors["low"] - 1,
        timing.filter(pl.col("way") == "hidden_anchor")["runs"][0],
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "compression_is_faster",
        "Queries are answered faster behind the anchors than with full prompts",
        "[A] §3.2, Table 3",
        "median time per query of full prompts over that with hidden_anchor, minus 1",
        "time with hidden_anchor",
        partial(time_saved, over="full_prompt"),
        Control("none: a cache of all demonstrations saves most of this time too"),
        rule=QUARTILES,
        bounded=False,
    ),
    Claim(
        "anchors_faster_than_full_cache",
        "Queries are answered faster behind the anchors than behind a cache of everything",
        "[A] §3.2, Table 3",
        "median time per query behind a cache of everything over that with hidden_anchor, minus 1",
        "time with hidden_anchor",
        partial(time_saved, over="full"),
        Control("the cache of all demonstrations, which the effect is the difference from"),
        form=DISCRIMINATING,
        rule=QUARTILES,
        bounded=False,
        place=1,
    ),
)
