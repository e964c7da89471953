"""Whether a cache of the anchors answers faster than one of everything ([A] §3.2, Table 3)."""

from anchorflow.claims.claim import (
    DISCRIMINATING,
    QUARTILES,
    Claim,
    Control,
    NotMeasured,
    Run,
    Timed,
)

READS = ("timing",)

FEWEST = 4  # times of which quartiles are more than the times themselves
DISTURBED = 0.2  # share of cores with other work, above which times are not compared


def time_saved(run: Run) -> Timed:
    """Ratio of the time per query with a cache of everything to that with the anchors, minus 1.

    The bounds are the ratios of the closest and of the farthest quartiles, minus 1.
    """
    timing = run.rows("timing")
    others = float(timing["other_work"].fill_null(0).to_numpy().max())
    if others > DISTURBED and timing["device"][0] == "cpu":
        raise NotMeasured(
            f"other work kept {others:.0%} of the machine's cores busy while queries were timed; "
            "delete results/timing and run again with nothing beside it"
        )
    ways = {row["way"]: row for row in timing.iter_rows(named=True)}
    if lacking := {"full", "hidden_anchor"} - set(ways):
        raise NotMeasured(f"{' and '.join(sorted(lacking))} was not timed")
    other, anchors = ways["full"], ways["hidden_anchor"]
    if anchors["runs"] < FEWEST:
        raise NotMeasured(
            f"quartiles need {FEWEST} times, and there are {anchors['runs']}; raise "
            "timing.queries or timing.repetitions"
        )
    return Timed(
        other["milliseconds"] / anchors["milliseconds"] - 1,
        other["low"] / anchors["high"] - 1,
        other["high"] / anchors["low"] - 1,
        anchors["runs"],
    )


CLAIMS = (
    Claim(
        "anchors_faster_than_full_cache",
        "Queries are answered faster with a cache of the anchors than with a full cache",
        "[A] §3.2, Table 3",
        "ratio of the median time per query with a cache of all demonstrations to that with "
        "hidden_anchor, minus 1",
        "time with hidden_anchor",
        time_saved,
        Control("the cache of all demonstrations, already compared in the effect"),
        null="",
        form=DISCRIMINATING,
        rule=QUARTILES,
        figure="timing",
        question="Is a cache of the anchors faster than a cache of all demonstrations?",
    ),
)
