"""Time per query with the anchors cached, compared with full prompts ([A] Table 3)."""

import polars as pl

from anchorflow.summarize.claims._claim import QUARTILES, Claim, Run, Timed

READS = ("timing",)


def time_saved(run: Run) -> Timed:
    """Ratio of the time per query with full prompts to that with the anchors, minus 1.

    The bounds compare the closest and the farthest quartiles.
    """
    timing = run.rows("timing")
    full, anchors = (
        timing.row(by_predicate=pl.col("way") == way, named=True)
        for way in ("full_prompt", "hidden_anchor")
    )
    return Timed(
        full["milliseconds"] / anchors["milliseconds"] - 1,
        full["low"] / anchors["high"] - 1,
        full["high"] / anchors["low"] - 1,
        anchors["runs"],
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "compression_is_faster",
        "Queries are answered faster behind the anchors than with full prompts",
        "[A] §3.2, Table 3",
        "median time per query of full prompts over that with hidden_anchor, minus 1",
        "time with hidden_anchor",
        time_saved,
        rule=QUARTILES,
        bounded=False,
    ),
)
