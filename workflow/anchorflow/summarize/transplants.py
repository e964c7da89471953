"""How far answers move to those of a donor, and how often they follow it."""

import numpy as np
import polars as pl

from anchorflow.schemas.transplant import TRANSPLANTS
from anchorflow.summarize.by_task import (
    SHARE,
    estimate_over_seeds,
    over_tasks,
    ratio_of_seed,
    require_examples,
    summary_rows,
    summary_table,
    undefined,
)
from anchorflow.summarize.statistics import Estimate

MEASURES = ("moved", "follows")
BOUNDS = {"follows": SHARE}
SETTING = ["donor", "what", "places", "side", "layer", "layers"]
_EXAMPLE = ["seed", "example"]


def transplant_measures(transplant: pl.DataFrame) -> pl.DataFrame:
    """For every answer after a transplant, the parts and wholes of both measures.

    With label probabilities p of the prompt's own answer, d of the donor's, and t after the
    transplant, ``moved`` is (t - p)·(d - p) of the whole |d - p|². ``follows`` is 1 where the
    prediction is the donor's, of the whole 1 where the donor's differs from the prompt's own.

    Parameters
    ----------
    transplant : DataFrame
        Table ``transplant`` of one model and task.

    Returns
    -------
    DataFrame
        Columns seed, example, draw, the setting, ``moved``, ``moved_whole``, ``follows``, and
        ``follows_whole``.
    """
    answer = ["prediction", "probabilities"]
    own = transplant.filter(pl.col("what") == "none").select(*_EXAMPLE, *answer)
    donors = transplant.filter(pl.col("what") == "prompt")
    donors = donors.select(*_EXAMPLE, "donor", "draw", *answer)
    rows = (
        transplant.filter(~pl.col("what").is_in(["none", "prompt"]))
        .join(own, on=_EXAMPLE, suffix="_own")
        .join(donors, on=[*_EXAMPLE, "donor", "draw"], suffix="_donor")
    )
    labels = len(transplant["probabilities"][0])
    after, before, wanted = (
        np.array(rows[f"probabilities{of}"].to_list(), np.float64).reshape(-1, labels)
        for of in ("", "_own", "_donor")
    )
    way = wanted - before
    differs = pl.col("prediction_own") != pl.col("prediction_donor")
    return rows.select(
        *_EXAMPLE,
        "draw",
        *SETTING,
        pl.Series("moved", ((after - before) * way).sum(1)),
        pl.Series("moved_whole", (way**2).sum(1)),
        (differs & (pl.col("prediction") == pl.col("prediction_donor")))
        .cast(pl.Float64)
        .alias("follows"),
        differs.cast(pl.Float64).alias("follows_whole"),
    )


def summarize_transplants(
    transplant: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """How far each transplant moves the answer, per task and averaged over tasks, with intervals.

    Every seed has its own draws of donors and places, so intervals over seeds include them.

    Parameters
    ----------
    transplant, prompts : DataFrame
        Tables ``transplant`` and ``prompts`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``transplants``.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(transplant)
    taken = transplant.filter(~pl.col("what").is_in(["none", "prompt"]))
    settings = taken.select(SETTING).unique(maintain_order=True).sort(SETTING)
    keys = settings.join(pl.DataFrame({"measure": MEASURES}), how="cross")
    every = list(settings.iter_rows(named=True))

    def of_task(rows: pl.DataFrame) -> Estimate:
        measured = transplant_measures(rows)
        if measured.is_empty():  # label words without others of as many tokens
            return undefined(len(keys))
        return estimate_over_seeds(measured, lambda seed: ratio_of_seed(seed, every, MEASURES))

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = over_tasks(transplant, tasks, of_task, len(keys))
    rows = summary_rows(estimates, keys, taken, confidence, BOUNDS)
    return summary_table(rows, transplant, TRANSPLANTS)
