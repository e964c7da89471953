"""The three information flows by layer ([A] §2.1, Fig. 3), and their controls."""

import numpy as np
import polars as pl

from anchorflow.analyses.flow import FLOW_SUMMARY
from anchorflow.arrays import Array
from anchorflow.config.table import SHARE
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import AVERAGE

FLOWS = ("s_wp", "s_pq", "s_ww")
SCALES = ("absolute", "proportion")
MATCHED = ("text", "before", "after")  # positions in place of the label words
_SUFFIXES = ("", *(f"_{name}" for name in MATCHED))
# Part and whole of each ratio, which is near 1/2 if label words are like other tokens.
RATIOS = {
    "target_share_text": ("target_label", ("target_label", "target_text")),
    "target_share_template": ("target_label", ("target_label", "target_template")),
    "into_share": ("into_label", ("into_label", "into_text")),
}
SOURCES = ("wp_text", "wp_template", "wp_labels", "wp_instruction", "wp_rest", "wp_first")
_PER_TOKEN = (
    *("target_label", "target_template", "target_text", "target_instruction"),
    *("target_first", "target_query", "into_label", "into_text", "into_instruction"),
)

BOUNDS = {"proportion": SHARE}


def summarize_flow(
    flow: pl.DataFrame, prompts: pl.DataFrame, demonstrations: str, confidence: float
) -> pl.DataFrame:
    """S_wp, S_pq, S_ww, and their controls by layer, per task and averaged, with intervals.

    A proportion is S / (S_wp + S_pq + S_ww) of the same example and layer; for parts of S_wp, it is
    their share of S_wp. ``RATIOS`` are proportions too.
    """
    by_task.require_examples(flow)
    layers = flow["layer"].n_unique()
    index = [(layer, *measure) for layer in layers_of(flow) for measure in measures()]
    keys = pl.DataFrame(index, schema=["layer", "flow", "scale"], orient="row")

    def of_seed(rows: pl.DataFrame) -> Array:
        values = flows_and_controls(rows, layers)
        return values.reshape(len(values), -1)

    tasks = prompts["task"].unique(maintain_order=True).to_list()
    estimates = by_task.mean_by_task(flow, tasks, of_seed, len(keys))
    rows = by_task.summary_rows(estimates, keys, flow, confidence, BOUNDS, by="scale")
    skipped = by_task.skipped_prompts(prompts, demonstrations)
    return by_task.summary_table(rows, flow, FLOW_SUMMARY, skipped)


def measures() -> list[tuple[str, str]]:
    """Name and scale of all K measures, in the order of :func:`flows_and_controls`."""
    return [
        *((flow + suffix, scale) for suffix in _SUFFIXES for flow in FLOWS for scale in SCALES),
        *((name, "absolute") for name in (*_PER_TOKEN, *SOURCES)),
        *((name, "proportion") for name in (*SOURCES, *RATIOS)),
    ]


def flows_and_controls(frame: pl.DataFrame, layers: int) -> Array:
    """All measures of one task and seed: [examples, L, K]; NaN where undefined."""
    ordered = frame.sort("example", "layer")
    flows = [
        flows_and_shares(ordered, layers, suffix).reshape(-1, layers, len(FLOWS) * len(SCALES))
        for suffix in _SUFFIXES
    ]
    controls = ordered.select(
        *_PER_TOKEN,
        *SOURCES,
        *(_share(pl.col(name), pl.col("s_wp")).alias(f"{name}_share") for name in SOURCES),
        *(
            _share(pl.col(part), pl.sum_horizontal(whole, ignore_nulls=False)).alias(name)
            for name, (part, whole) in RATIOS.items()
        ),
    ).to_numpy()
    values: Array = np.concatenate([*flows, controls.reshape(-1, layers, controls.shape[1])], -1)
    return values


def _share(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """A part of a whole; null where the whole is 0, as S_wp is in the last layer."""
    return pl.when(whole > 0).then(part / whole)


def mean_shares(flow: pl.DataFrame) -> pl.DataFrame:
    """Mean shares of S_wp, S_pq, and S_ww, per task and over tasks.

    Means are first over examples, then over tasks.
    """
    total = sum((pl.col(name) for name in FLOWS), pl.lit(0.0))
    shares = flow.select("task", "layer", *(pl.col(name) / total for name in FLOWS))
    long = shares.unpivot(FLOWS, index=["task", "layer"], variable_name="flow", value_name="mean")
    means = long.group_by("task", "layer", "flow").agg(pl.col("mean").fill_nan(None).mean())
    average = means.group_by("layer", "flow").agg(task=pl.lit(AVERAGE), mean=pl.col("mean").mean())
    return pl.concat([means, average.select(means.columns)])


def flows_and_shares(frame: pl.DataFrame, layers: int, suffix: str = "") -> Array:
    """S_wp, S_pq, and S_ww of one task and seed, and their shares: [examples, L, flows, scales].

    With a ``suffix``, for example ``_before``, the flows at matched positions; NaN where there are
    none. If all three flows are 0, so are their shares.
    """
    ordered = frame.sort("example", "layer")
    names = [f"{flow}{suffix}" for flow in FLOWS]
    flows = ordered.select(names).to_numpy().reshape(-1, layers, len(FLOWS))
    total = flows.sum(-1, keepdims=True)
    without = np.where(np.isnan(total), np.nan, np.zeros_like(flows))
    shares = np.divide(flows, total, out=without, where=total > 0)
    values: Array = np.stack([flows, shares], -1)
    return values
