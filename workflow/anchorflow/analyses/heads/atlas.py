"""The scores of a model's heads as one JSON file, for other tools."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from anchorflow.analyses.heads import DEFINITIONS
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics.by_task import AVERAGE
from anchorflow.store.replacing import replacing

_KEPT = ("name", "repository", "revision", "sha256", "adapter", "dtype", "architecture")


def atlas(
    summary: pl.DataFrame, card: Mapping[str, Any], prompts: Mapping[str, Any], confidence: float
) -> dict[str, Any]:
    """Every score as layers × heads, averaged over tasks, with intervals.

    ``scores`` have their definition and control, and by measure ``mean``, ``low`` and ``high`` as
    [L][H], null where undefined. ``layers`` are the places in the model of its L layers.
    """
    averaged = summary.filter(pl.col("task") == AVERAGE, pl.col("layer") >= 0)
    found: dict[str, Any] = {}
    for (score, measure), rows in averaged.group_by("score", "measure", maintain_order=True):
        ordered, number = rows.sort("layer", "head"), rows["layer"].n_unique()
        values = {end: _rows(ordered[end].to_list(), number) for end in ("mean", "low", "high")}
        entry = found.setdefault(
            str(score), dict(zip(("definition", "control"), DEFINITIONS[str(score)], strict=True))
        )
        entry[str(measure)] = values
    return {
        "model": {key: card[key] for key in _KEPT if card.get(key) is not None},
        "prompts": dict(prompts),
        "tasks": sorted(set(summary["task"]) - {AVERAGE}),
        "seeds": int(np.max(averaged["seeds"].to_numpy())),
        "confidence": confidence,
        "examples": int(np.max(averaged["examples"].to_numpy())),
        "texts": int(np.max(averaged["texts"].to_numpy())),
        "layers": layers_of(averaged),
        "scores": found,
    }


def write_atlas(path: str | Path, content: Mapping[str, Any]) -> None:
    """Write an atlas atomically."""
    with replacing(path) as temporary:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def _rows(values: list[float | None], layers: int) -> list[list[float | None]]:
    heads = len(values) // layers
    return [values[first : first + heads] for first in range(0, len(values), heads)]
