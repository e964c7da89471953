"""How far transplants move answers to the donor's, and how often predictions follow."""

import numpy as np
import polars as pl

from anchorflow.analyses.transplant.schema import TRANSPLANT_SUMMARY
from anchorflow.statistics import accuracy_change as change
from anchorflow.statistics.by_task import (
    SHARE,
    estimate_over_seeds,
    over_tasks,
    ratio_of_seed,
    require_examples,
    summary_rows,
    summary_table,
    undefined,
)
from anchorflow.statistics.estimates import Estimate

_MEANS = (*change.CHANGES, *change.VOCABULARY)
MEASURES = ("moved", "follows", *_MEANS)
BOUNDS = {"follows": SHARE, **change.BOUNDS}
SETTING = ["donor", "what", "places", "side", "layer", "layers"]
_EXAMPLE = ["seed", "example"]


def transplant_measures(transplant: pl.DataFrame) -> pl.DataFrame:
    """For every answer after a transplant, the parts and wholes of all measures.

    Let p, d, and t be the label probabilities of the prompt, of the donor, and after the
    transplant. ``moved`` is (t - p)·(d - p), out of the whole |d - p|². ``follows`` is 1 where the
    prediction becomes the donor's, out of a whole of 1 where the donor's differs from the prompt's.
    The others, with a whole of 1, are ``label_mass``, ``in_labels``, and the change of accuracy
    with its parts, of :func:`accuracy_changes`.

    Parameters
    ----------
    transplant : DataFrame
        Table ``transplant`` of one model and task.

    Returns
    -------
    DataFrame
        Columns seed, example, draw, the setting, every measure, and its whole, as ``moved_whole``.
    """
    answer = ["prediction", "probabilities"]
    untouched = transplant.filter(pl.col("what") == "none").select(*_EXAMPLE, *answer, "in_labels")
    donors = transplant.filter(pl.col("what") == "prompt")
    donors = donors.select(*_EXAMPLE, "donor", "draw", *answer)
    rows = (
        transplant.filter(~pl.col("what").is_in(["none", "prompt"]))
        .join(untouched, on=_EXAMPLE, suffix="_own")
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
        *change.VOCABULARY,
        **change.accuracy_changes(change.CHANGES, "prediction_own", "in_labels_own"),
        **{f"{measure}_whole": pl.lit(1.0) for measure in _MEANS},
    )


def summarize_transplant(
    transplant: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """How far each transplant moves the answer, per task and averaged over tasks, with intervals.

    Every seed draws its own donors and places, so intervals over seeds cover the draws as well.

    Parameters
    ----------
    transplant, prompts : DataFrame
        Tables ``transplant`` and ``prompts`` of one model, all tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``transplant_summary``.

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
        if measured.is_empty():  # no two label words of the same length
            return undefined(len(keys))
        return estimate_over_seeds(measured, lambda seed: ratio_of_seed(seed, every, MEASURES))

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = over_tasks(transplant, tasks, of_task, len(keys))
    rows = summary_rows(estimates, keys, taken, confidence, BOUNDS)
    return summary_table(rows, transplant, TRANSPLANT_SUMMARY)
