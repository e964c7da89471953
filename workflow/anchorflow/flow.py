"""How the three information flows change with depth ([A] §2.1, Fig. 3)."""

import numpy as np
import polars as pl

from anchorflow.draws import generator
from anchorflow.statistics import Estimate, average, bootstrap, weighted_mean
from anchorflow.summaries import (
    AVERAGE,
    per_seed,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
    undefined,
)
from anchorflow.tables import FLOW

FLOWS = ("s_wp", "s_pq", "s_ww")
SCALES = ("absolute", "proportion")


def summarize_flow(
    saliency: pl.DataFrame,
    prompts: pl.DataFrame,
    demonstrations: str,
    replicates: int,
    confidence: float,
) -> pl.DataFrame:
    """S_wp, S_pq and S_ww per layer, per task and averaged over tasks, with intervals.

    Parameters
    ----------
    saliency, prompts : DataFrame
        ``tables.SALIENCY`` and ``tables.PROMPTS`` of one model, all tasks and seeds.
    demonstrations : str
        The protocol that saliency was measured with, ``per_example`` or ``fixed``.

    Returns
    -------
    DataFrame
        Columns of ``tables.FLOW``. A proportion is S / (S_wp + S_pq + S_ww) of the same example
        and layer.
    """
    require_examples(saliency)
    layers = saliency["layer"].n_unique()
    estimates: dict[str, Estimate] = {}
    for task in prompts["task"].unique(maintain_order=True):
        rows = saliency.filter(pl.col("task") == task)
        if rows.is_empty():
            estimates[task] = undefined(layers * len(FLOWS) * len(SCALES), replicates)
            continue
        seeds = [flows_and_shares(frame, layers) for frame in per_seed(rows)]
        estimates[task] = bootstrap(
            [weighted_mean(values.reshape(len(values), -1)) for values in seeds],
            [len(values) for values in seeds],
            replicates,
            generator(0, "flow", task),
        )
    estimates[AVERAGE] = average(list(estimates.values()))
    index = [(layer, f, s) for layer in range(layers) for f in FLOWS for s in SCALES]
    keys = pl.DataFrame(index, schema=["layer", "flow", "scale"], orient="row")
    rows = summary_rows(estimates, keys, saliency, confidence)
    counted = rows.join(skipped_prompts(prompts, demonstrations), on="task", maintain_order="left")
    return summary_table(counted, saliency, FLOW)


def flows_and_shares(frame: pl.DataFrame, layers: int) -> np.ndarray:
    """S_wp, S_pq and S_ww of one task and seed, and their shares: [examples, L, flows, scales]."""
    ordered = frame.sort("example", "layer")
    flows = ordered.select(FLOWS).to_numpy().reshape(-1, layers, len(FLOWS))
    total = flows.sum(-1, keepdims=True)
    shares = np.divide(flows, total, out=np.zeros_like(flows), where=total > 0)
    values: np.ndarray = np.stack([flows, shares], -1)
    return values
