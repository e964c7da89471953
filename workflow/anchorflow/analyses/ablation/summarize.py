"""Accuracy and answers without the heads of the highest scores, and without random ones."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.ablation import ABLATION_SUMMARY as SUMMARY
from anchorflow.arrays import Array
from anchorflow.statistics import by_task

MEASURES = ("accuracy", "in_labels", "label_mass", "divergence")
AREAS = ("accuracy", "in_labels")
KINDS = ["score", "control", "where", "by"]


def ablation_measures(ablation: pl.DataFrame) -> pl.DataFrame:
    """The measures of every prediction, with the columns of its setting."""
    return ablation.with_columns(
        accuracy=(pl.col("prediction") == pl.col("label")).cast(pl.Float64),
        in_labels=pl.col("in_labels").cast(pl.Float64),
        label_mass=pl.col("label_mass").cast(pl.Float64),
    )


def area_over(values: Array, places: Array) -> Array:
    """The mean of [..., places] over the range of the places, by the trapezoid rule.

    Source: after Mueller et al. 2025 (MIB), who average a circuit's faithfulness over its share of
    the model. Here single heads are taken away, and what remains is not compared with nothing.
    """
    if len(places) == 1:
        alone: Array = values[..., 0]
        return alone
    area: Array = np.trapezoid(values, places, axis=-1) / (places[-1] - places[0])
    return area


def summarize_ablation(
    ablation: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """Every measure of every setting, averaged over draws, with intervals."""
    by_task.require_examples(ablation)
    measured = ablation_measures(ablation)
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    parts = []
    for (kind), rows in measured.group_by(KINDS, maintain_order=True):
        shares = rows["share"].unique().sort().to_list()
        names = [(share, measure) for measure in MEASURES for share in shares]
        areas = [f"{measure}_{area}" for measure in AREAS for area in ("area", "log_area")]
        areas = areas if kind[2] != "none" else []
        keys = pl.DataFrame(
            {
                **{
                    name: [value] * (len(names) + len(areas))
                    for name, value in zip(KINDS, kind, strict=True)
                },
                "share": [share for share, _ in names] + [None] * len(areas),
                "measure": [measure for _, measure in names] + areas,
            },
            schema_overrides={"share": pl.Float64},
        )
        values = partial(_values, shares=shares, with_areas=bool(areas))
        estimates = by_task.mean_by_task(rows, tasks, values, len(keys))
        parts.append(by_task.summary_rows(estimates, keys, rows, confidence, SUMMARY.bounds))
    return by_task.summary_table(pl.concat(parts), ablation, SUMMARY)


def _values(rows: pl.DataFrame, shares: list[float], with_areas: bool) -> Array:
    """Measures of each example, averaged over draws: [examples, measures · shares + areas]."""
    means = rows.group_by("example", "share").agg(pl.col(*MEASURES).mean())
    texts = rows.select(pl.col("example").unique().sort())
    table = texts.join(pl.DataFrame({"share": shares}), how="cross")
    whole = table.join(means, on=["example", "share"], how="left", maintain_order="left")
    by_measure = {
        measure: whole[measure].fill_null(np.nan).to_numpy().reshape(len(texts), -1)
        for measure in MEASURES
    }
    columns = [by_measure[measure] for measure in MEASURES]
    if with_areas:
        places = np.array(shares)
        columns += [
            area_over(by_measure[measure], at)[:, None]
            for measure in AREAS
            for at in (places, np.log(places))
        ]
    return np.concatenate(columns, 1)
