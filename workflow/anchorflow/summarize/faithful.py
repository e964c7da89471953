"""How well saliency and attention foretell what cutting edges in single layers does."""

import numpy as np
import polars as pl
from scipy.stats import rankdata

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.schemas.faithfulness import FAITHFUL
from anchorflow.summarize.by_task import (
    CORRELATION,
    SHARE,
    estimate_over_seeds,
    over_tasks,
    ratio_of_seed,
    require_examples,
    summary_rows,
    summary_table,
    undefined,
)
from anchorflow.summarize.knockouts import knockout_measures
from anchorflow.summarize.statistics import Estimate

ESTIMATES = ("saliency", "gradient", "integrated", "attention")
SIGNED = ("gradient", "integrated")
MEASURES = ("rank", "sign", "slope")
BOUNDS = {"rank": CORRELATION, "sign": SHARE}
SETTING = ["edges", "control", "estimate"]
_PROMPT = ["seed", "example", "edges", "control", "draw"]


def rank_correlations(first: Array, second: Array) -> Array:
    """Spearman's correlation of every row of two [rows, layers]; NaN where one does not vary."""
    ranks = [rankdata(values, axis=1) for values in (first, second)]
    centered = [values - values.mean(1, keepdims=True) for values in ranks]
    products = (centered[0] * centered[1]).sum(1)
    norms = np.sqrt((centered[0] ** 2).sum(1) * (centered[1] ** 2).sum(1))
    found: Array = np.divide(products, norms, out=np.full(len(norms), np.nan), where=norms > 0)
    return found


def faithfulness_measures(faithfulness: pl.DataFrame, knockout: pl.DataFrame) -> pl.DataFrame:
    """For every prompt, class, and estimate, the parts and wholes of the three measures.

    Layers in which cutting changes nothing at all have no sign to be foretold.

    Parameters
    ----------
    faithfulness, knockout : DataFrame
        Tables of one model and task.

    Returns
    -------
    DataFrame
        Columns seed, example, draw, the setting, and of each measure its part and its whole; see
        :func:`~anchorflow.summarize.by_task.ratio_of_seed`.
    """
    cut = knockout_measures(knockout).filter(pl.col("band") == "single")
    pairs = faithfulness.join(cut.select(*_PROMPT, "layer", "loss_change"), on=[*_PROMPT, "layer"])
    pairs = pairs.sort(*_PROMPT, "layer")
    frames = [pl.DataFrame()]
    for prompts in pairs.partition_by("edges", "control", maintain_order=True):
        texts = prompts.group_by(_PROMPT, maintain_order=True).agg(
            pl.col(*ESTIMATES, "loss_change")
        )
        change = np.array(texts["loss_change"].to_list(), np.float64)  # [prompts, layers]
        for name in ESTIMATES:
            if prompts[name].is_null().any():
                continue
            told = np.array(texts[name].to_list(), np.float64)
            frames.append(
                texts.select(*_PROMPT, pl.lit(name).alias("estimate")).with_columns(
                    **_parts(told, change, name in SIGNED)
                )
            )
    return pl.concat(frames, how="diagonal")


def _parts(told: Array, change: Array, signed: bool) -> dict[str, pl.Series]:
    """Parts and wholes of the measures, of what was told and what came [prompts, layers]."""
    rank = rank_correlations(np.abs(told), np.abs(change))
    foretold = change != 0
    agree = (np.sign(told) == np.sign(change)) & foretold
    came = change if signed else np.abs(change)
    parts = {
        "rank": np.nan_to_num(rank),
        "rank_whole": (~np.isnan(rank)).astype(float),
        "sign": agree.sum(1) * float(signed),
        "sign_whole": foretold.sum(1) * float(signed),
        "slope": (told * came).sum(1),
        "slope_whole": (told**2).sum(1),
    }
    return {name: pl.Series(values, dtype=pl.Float64) for name, values in parts.items()}


def summarize_faithful(
    faithfulness: pl.DataFrame, knockout: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """How well each estimate agrees with cutting, per task and averaged, with intervals.

    Parameters
    ----------
    faithfulness, knockout, prompts : DataFrame
        Tables of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``faithful``; no sign of estimates that have none.

    Raises
    ------
    InputError
        If there are no estimates, or no edges were cut in single layers.
    """
    require_examples(faithfulness)
    if knockout.filter(pl.col("band") == "single").is_empty():
        raise InputError("knockout.layers: saliency is compared with single layers; add single.")
    known = [name for name in ESTIMATES if faithfulness[name].is_not_null().any()]
    classes = faithfulness.select("edges", "control").unique().sort("edges", "control")
    settings = classes.join(pl.DataFrame({"estimate": known}), how="cross")
    keys = settings.join(pl.DataFrame({"measure": MEASURES}), how="cross")
    every = list(settings.iter_rows(named=True))

    def of_task(rows: pl.DataFrame) -> Estimate:
        cut = knockout.filter(pl.col("task") == rows["task"][0])
        measured = faithfulness_measures(rows, cut)
        if measured.is_empty():
            return undefined(len(keys))
        return estimate_over_seeds(measured, lambda seed: ratio_of_seed(seed, every, MEASURES))

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = over_tasks(faithfulness, tasks, of_task, len(keys))
    rows = summary_rows(estimates, keys, faithfulness, confidence, BOUNDS)
    without_sign = (pl.col("measure") == "sign") & ~pl.col("estimate").is_in(SIGNED)
    return summary_table(rows.filter(~without_sign), faithfulness, FAITHFUL)
