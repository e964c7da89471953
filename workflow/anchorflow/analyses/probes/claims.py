"""What keys and values beside label words hold ([K] §5.4)."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.probes.summarize import with_texts
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean

READS = ("kernel_samples", "probes", "prompts")


def gathered(run: Run, source: str, target: str) -> Sampled:
    """Share of demonstrations decoded beside label words minus that with shuffled targets.

    Labels are decoded from the tokens after a label word, next tokens from those before it: what is
    held there has been gathered. The mean over these tokens, layers, and key-value heads.
    """
    at = pl.col("offset") < 0 if target == "next_token" else pl.col("offset") >= _word_tokens(run)
    decoded = set(run.rows("probes")["target"])
    if decoded and target not in decoded:
        raise NotMeasured(f"no probe decodes {target}", "probes: {targets: [label, next_token]}")
    seeds = {}
    for seed, rows in run.by_seed("probes").items():
        chosen = rows.filter(at, source=source, target=target)
        if chosen.is_empty():
            continue
        gain = with_texts(chosen, run.rows("kernel_samples")).with_columns(
            gain=pl.col("correct").cast(pl.Float64) - pl.col("shuffled").cast(pl.Float64)
        )
        of = gain.group_by("example").agg(pl.col("gain").mean()).sort("example")
        gained = of["gain"].to_numpy()[:, np.newaxis]
        seeds[seed] = SeedStatistic(weighted_mean(gained), texts_of(of))
    lacking = f"no probe decodes {target} from {source}s beside label words"
    remedy = "kernel: {demonstrations_per_label: 4, offsets: [-1, 0, 1, 2, 3]}"
    return Sampled.of_any(seeds, lacking, remedy)


def _word_tokens(run: Run) -> int:
    """The number of tokens of every label word, from whose first one offsets are counted."""
    prompts = run.rows("prompts").filter(demonstrations="fixed")
    ends, starts = (prompts[name].explode() for name in ("label_ends", "label_positions"))
    counts = (ends - starts).drop_nulls().unique().to_list()
    if len(counts) != 1:
        raise NotMeasured("label words differ in their number of tokens")
    return int(counts[0])


CLAIMS = (
    # At a label word, keys and values are those of the token itself, which names the label. What
    # the tokens beside it hold has been gathered there. An untrained network gathers some of it as
    # well, by attending to all tokens alike.
    *(
        Claim(
            name,
            statement,
            "[K] §5.4",
            f"share of demonstrations whose {target} a probe decodes there minus that of shuffled "
            "targets, mean over tokens, layers, and heads",
            "accuracy",
            partial(gathered, source=source, target=target),
            Control.subtracted("shuffled targets"),
            form=DISCRIMINATING,
            figure="probes",
        )
        for name, source, target, statement in (
            (
                "probes_decode_label_after",
                "value",
                "label",
                "Values of the tokens after a label word hold the demonstration's label",
            ),
            *(
                (
                    f"probes_decode_next_token_before_{source}s",
                    source,
                    "next_token",
                    f"{source.title()}s of the token before a label word hold the model's most "
                    "likely token after the demonstration's text",
                )
                for source in ("key", "value")
            ),
        )
    ),
)
