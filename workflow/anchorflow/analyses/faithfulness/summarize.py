"""How well saliency and attention predict the effect of cutting edges in single layers."""

import numpy as np
import polars as pl

from anchorflow.analyses.faithfulness import FAITHFULNESS_SUMMARY as SUMMARY
from anchorflow.analyses.knockout.summarize import knockout_measures
from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.statistics.by_task import (
    estimate_over_seeds,
    ratio_of_seed,
    require_examples,
    undefined,
)
from anchorflow.statistics.estimates import Estimate, rank_correlations
from anchorflow.statistics.settings import summarize_settings

ESTIMATES = ("saliency", "gradient", "integrated", "gim", "attention")
SIGNED = ("gradient", "integrated", "gim")
# The estimate on which another one is to improve.
SIMPLER = {"saliency": "attention", "integrated": "gradient", "gim": "gradient"}
_PROMPT = ["seed", "example", "edges", "control", "draw"]


def faithfulness_measures(faithfulness: pl.DataFrame, knockout: pl.DataFrame) -> pl.DataFrame:
    """Numerators and denominators of the measures, for every prompt, class, and estimate.

    Layers in which cutting changes nothing at all have no sign to predict.

    A numerator has the measure's name, and its denominator ends in ``_whole``; see
    :func:`~anchorflow.statistics.by_task.ratio_of_seed`.
    """
    cut = knockout_measures(knockout).filter(pl.col("band") == "single")
    place = [*_PROMPT, "layer"]
    exchanged = faithfulness.filter(pl.col("change").is_not_null())
    changes = pl.concat(
        [
            cut.select(*place, "loss_change"),
            exchanged.select(*place, pl.col("change").alias("loss_change")),
        ],
        how="vertical_relaxed",
    )
    pairs = faithfulness.join(changes, on=place).sort(place)
    frames = [pl.DataFrame()]
    for prompts in pairs.partition_by("edges", "control", maintain_order=True):
        texts = prompts.group_by(_PROMPT, maintain_order=True).agg(
            pl.col(*ESTIMATES, "loss_change")
        )
        change = np.array(texts["loss_change"].to_list(), np.float64)  # [prompts, layers]
        known = {
            name: np.array(texts[name].to_list(), np.float64)  # [prompts, layers]
            for name in ESTIMATES
            if not prompts[name].is_null().any()
        }
        ranks = {n: rank_correlations(np.abs(of), np.abs(change)) for n, of in known.items()}
        for name, estimated in known.items():
            difference = ranks[name] - ranks.get(SIMPLER.get(name, ""), np.nan)
            parts = {
                **_means("rank", ranks[name]),
                **_means("rank_difference", difference),
                **_parts(estimated, change, name in SIGNED),
            }
            frames.append(
                texts.select(*_PROMPT, pl.lit(name).alias("estimate")).with_columns(
                    **{part: pl.Series(values, dtype=pl.Float64) for part, values in parts.items()}
                )
            )
    return pl.concat(frames, how="diagonal")


def _means(name: str, values: Array) -> dict[str, Array]:
    """Numerator and denominator of the mean of values [prompts], NaN where undefined."""
    return {name: np.nan_to_num(values), f"{name}_whole": (~np.isnan(values)).astype(float)}


def _parts(estimated: Array, change: Array, signed: bool) -> dict[str, Array]:
    """Those of sign and slope, from estimated and measured changes [prompts, layers]."""
    changed = change != 0
    agree = (np.sign(estimated) == np.sign(change)) & changed
    measured = change if signed else np.abs(change)
    return {
        "sign": agree.sum(1) * float(signed),
        "sign_whole": changed.sum(1) * float(signed),
        # Summed over prompts, this is the slope of the regression through the origin.
        "slope": (estimated * measured).sum(1),
        "slope_whole": (estimated**2).sum(1),
    }


def summarize_faithfulness(
    faithfulness: pl.DataFrame, knockout: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """How well each estimate agrees with cutting, and whether it does so better than a simpler one.

    Unsigned estimates have no measure ``sign``, and only those in ``SIMPLER`` a difference.
    """
    require_examples(faithfulness)
    if knockout.filter(pl.col("band") == "single").is_empty():
        raise InputError("knockout.layers: saliency is compared with single layers; add single.")
    # A donor's keys and values have fewer estimates than edges have.
    found = faithfulness.group_by("edges", "control").agg(pl.col(ESTIMATES).is_not_null().any())
    settings = (
        found.unpivot(ESTIMATES, index=["edges", "control"], variable_name="estimate")
        .filter("value")
        .sort("edges", "control", pl.col("estimate").cast(pl.Enum(ESTIMATES)))
        .drop("value")
    )
    known = set(settings["estimate"])
    every = list(settings.iter_rows(named=True))

    def of_task(rows: pl.DataFrame) -> Estimate:
        cut = knockout.filter(pl.col("task") == rows["task"][0])
        found = faithfulness_measures(rows, cut)
        if found.is_empty():
            return undefined(len(every) * len(SUMMARY.measured))
        return estimate_over_seeds(found, lambda seed: ratio_of_seed(seed, every, SUMMARY.measured))

    summary = summarize_settings(SUMMARY, settings, of_task, faithfulness, prompts, confidence)
    having = {"sign": SIGNED, "rank_difference": {n for n in known if SIMPLER.get(n) in known}}
    lacking = [
        (pl.col("measure") == measure) & ~pl.col("estimate").is_in(list(estimates))
        for measure, estimates in having.items()
    ]
    return summary.filter(~pl.any_horizontal(lacking))
