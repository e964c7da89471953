"""What ridge probes decode from keys and values, compared with shuffled targets ([K] §5.4)."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.summarize.by_task import texts_of
from anchorflow.summarize.claims._claim import Claim, Control, NotTested, Run, Sampled
from anchorflow.summarize.decoding import with_texts
from anchorflow.summarize.statistics import SeedStatistic, weighted_mean

READS = ("probes", "kernel_samples")


def decoded_over_shuffled(run: Run, source: str, target: str) -> Sampled:
    """Share of demonstrations decoded minus that with shuffled targets, at the label word.

    The mean over layers and key-value heads.

    Raises
    ------
    NotTested
        If nothing was probed.
    """
    seeds = {}
    for seed, rows in run.by_seed("probes").items():
        chosen = rows.filter(
            pl.col("source") == source, pl.col("target") == target, pl.col("offset") == 0
        )
        if chosen.is_empty():
            continue
        gain = with_texts(chosen, run.rows("kernel_samples")).with_columns(
            gain=pl.col("correct").cast(pl.Float64) - pl.col("shuffled").cast(pl.Float64)
        )
        of = gain.group_by("example").agg(pl.col("gain").mean()).sort("example")
        gained = of["gain"].to_numpy()[:, np.newaxis]
        seeds[seed] = SeedStatistic(weighted_mean(gained), texts_of(of))
    if not seeds:
        raise NotTested(f"no probe decodes {target} from {source}s")
    return Sampled(seeds)


CLAIMS: tuple[Claim, ...] = tuple(
    Claim(
        f"probes_decode_{target}_from_{source}s",
        f"{what} can be decoded from label words' {source}s",
        "[K] §5.4",
        f"share of demonstrations whose {target} a probe decodes minus with shuffled targets, "
        "mean over layers and heads",
        "accuracy",
        partial(decoded_over_shuffled, source=source, target=target),
        Control("shuffled targets, which the effect is the difference from"),
        "shuffled targets",
        place=1,
    )
    for source in ("key", "value")
    for target, what in (
        ("label", "A demonstration's label"),
        ("next_token", "What the model would say of a demonstration's text"),
    )
)
