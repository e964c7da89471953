"""The three information flows by layer ([A] §2.1, Fig. 3)."""

import numpy as np
import polars as pl

from anchorflow.schemas.flow import FLOW
from anchorflow.summarize.by_task import (
    estimates_by_task,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
    texts_of,
)
from anchorflow.summarize.statistics import SeedStatistic, weighted_mean

FLOWS = ("s_wp", "s_pq", "s_ww")
SCALES = ("absolute", "proportion")


def summarize_flow(
    saliency: pl.DataFrame,
    prompts: pl.DataFrame,
    demonstrations: str,
    confidence: float,
) -> pl.DataFrame:
    """S_wp, S_pq, and S_ww per layer, per task and averaged over tasks, with intervals.

    Parameters
    ----------
    saliency, prompts : DataFrame
        Tables ``saliency`` and ``prompts`` of one model, all tasks and seeds.
    demonstrations : str
        The protocol that saliency was measured with, ``per_example`` or ``fixed``.

    Returns
    -------
    DataFrame
        Columns of the table ``flow``. A proportion is S / (S_wp + S_pq + S_ww) of the same example
        and layer.
    """
    require_examples(saliency)
    layers = saliency["layer"].n_unique()
    index = [(layer, f, s) for layer in range(layers) for f in FLOWS for s in SCALES]
    keys = pl.DataFrame(index, schema=["layer", "flow", "scale"], orient="row")

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        values = flows_and_shares(rows, layers)
        return SeedStatistic(weighted_mean(values.reshape(len(values), -1)), texts_of(rows))

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = estimates_by_task(saliency, tasks, of_seed, len(keys))
    rows = summary_rows(estimates, keys, saliency, confidence)
    counted = rows.join(skipped_prompts(prompts, demonstrations), on="task", maintain_order="left")
    return summary_table(counted, saliency, FLOW)


def flows_and_shares(frame: pl.DataFrame, layers: int) -> np.ndarray:
    """S_wp, S_pq, and S_ww of one task and seed, and their shares: [examples, L, flows, scales]."""
    ordered = frame.sort("example", "layer")
    flows = ordered.select(FLOWS).to_numpy().reshape(-1, layers, len(FLOWS))
    total = flows.sum(-1, keepdims=True)
    shares = np.divide(flows, total, out=np.zeros_like(flows), where=total > 0)
    values: np.ndarray = np.stack([flows, shares], -1)
    return values
