"""Distance of kernel regression from exact Bayesian inference ([K] Theorem 1, Table 3)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.theory import THEORY_SUMMARY
from anchorflow.arrays import Array
from anchorflow.schemas.frames import frame_schema
from anchorflow.statistics.estimates import Estimate, SeedStatistic, estimate, weighted_mean

MEASURES = ("distance", "accuracy", "improper")
_LARGEST = {"distance": 2.0, "accuracy": 1.0, "improper": 1.0}
_KERNEL = ["kernel", "ridge", "rank"]
THEOREM = "theorem"
# Kernel regression and exact inference, by number of demonstrations; Han et al. 2025, Table 3.
PUBLISHED = {
    "demonstrations": (1, 2, 4, 8, 16, 32, 64, 128),
    "distance": (1.322, 0.942, 0.519, 0.218, 0.163, 0.085, 0.093, 0.083),
    "accuracy": (0.337, 0.532, 0.745, 0.901, 0.926, 0.968, 0.961, 0.964),
}


def summarize_theory(theory: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """Distance and accuracy by kernel and number of demonstrations; slope and floor of distances.

    The first kernel of ``theory`` is the theorem's with the first ridge, with which the others are
    compared. Intervals are by Student's t over worlds, for slope and floor by leaving out one world
    at a time.
    """
    counts = theory["demonstrations"].unique().sort().to_list()
    kernels = theory.select(_KERNEL).unique(maintain_order=True)
    rows: list[dict[str, object]] = []
    first = _values(theory, kernels.row(0, named=True), "distance", counts)
    for number, kernel in enumerate(kernels.iter_rows(named=True)):
        values = {name: _values(theory, kernel, name, counts) for name in MEASURES}
        is_theorem = number == 0
        for name in MEASURES:
            known = _published(name, counts) if is_theorem else {}
            rows += _rows(kernel, name, counts, over_worlds(values[name]), confidence, known)
        if not is_theorem:
            excess = over_worlds(values["distance"] - first)
            rows += _rows(kernel, "excess", counts, excess, confidence, {})
        mean = over_worlds(values["distance"])
        for name, trend in _TRENDS.items():
            known = _published_trend(name, counts) if is_theorem else {}
            of_mean = mean.map(partial(_as_column, trend, counts))
            rows += _rows(kernel, name, [None], of_mean, confidence, known)
    worlds = theory["world"].n_unique()
    table = pl.DataFrame([{**row, "worlds": worlds} for row in rows], infer_schema_length=None)
    return table.select(THEORY_SUMMARY.names).cast(frame_schema(THEORY_SUMMARY))


def over_worlds(values: Array) -> Estimate:
    """The mean over worlds of values, [W, K]; worlds are drawn independently."""
    return estimate([SeedStatistic(weighted_mean(values), np.arange(len(values)))])


def slope(distances: Array, counts: Sequence[int]) -> Array:
    """The least-squares slope of log distance, [..., n], against log n, as [...].

    NaN where there is a single number of demonstrations, or a distance is 0.
    """
    known = np.where(distances > 0, distances, np.nan)
    steepness, _ = _line(np.log(known), np.log(counts))
    return steepness


def floor(distances: Array, counts: Sequence[int]) -> Array:
    """The limit of distances, [..., n], if they fall as 1/√n, the theorem's rate, as [...].

    The intercept of the least-squares line in 1/√n over the larger half of the numbers n, since the
    rate is asymptotic; below 0 where distances fall faster. NaN for a single number.
    """
    half = len(counts) // 2
    _, intercept = _line(distances[..., half:], np.asarray(counts[half:], float) ** -0.5)
    return intercept


_TRENDS: dict[str, Callable[[Array, Sequence[int]], Array]] = {"slope": slope, "floor": floor}


def _as_column(
    trend: Callable[[Array, Sequence[int]], Array], counts: Sequence[int], distances: Array
) -> Array:
    return trend(distances, counts)[..., None]


def _line(values: Array, places: Array) -> tuple[Array, Array]:
    """Slope and intercept of the least-squares line through values, [..., n], as [...]."""
    centered = places - places.mean()
    squares = float(centered @ centered)
    steepness = values @ centered / (squares if squares > 0 else np.nan)
    return steepness, values.mean(-1) - steepness * places.mean()


def _values(
    theory: pl.DataFrame, kernel: Mapping[str, object], name: str, counts: Sequence[int]
) -> Array:
    """[W, n]: one measure of one kernel by world and number of demonstrations."""
    chosen = theory.filter(pl.col(key).eq_missing(pl.lit(kernel[key])) for key in _KERNEL)
    values: Array = chosen.sort("world", "demonstrations")[name].to_numpy()
    return values.reshape(-1, len(counts))


def _rows(
    kernel: Mapping[str, object],
    measure: str,
    counts: Sequence[int | None],
    estimated: Estimate,
    confidence: float,
    published: Mapping[int | None, float],
) -> list[dict[str, object]]:
    low, high = estimated.interval(confidence, change=float(measure in _LARGEST))
    if measure in _LARGEST:
        low, high = (np.clip(end, 0, _LARGEST[measure]) for end in (low, high))
    ends = {"mean": estimated.values, "low": low, "high": high}
    return [
        {
            **kernel,
            "demonstrations": count,
            "measure": measure,
            **{name: None if np.isnan(v[at]) else float(v[at]) for name, v in ends.items()},
            "published": published.get(count),
        }
        for at, count in enumerate(counts)
    ]


def _published(measure: str, counts: Sequence[int]) -> dict[int | None, float]:
    known = dict(zip(PUBLISHED["demonstrations"], PUBLISHED.get(measure, ()), strict=False))
    return {count: known[count] for count in counts if count in known}


def _published_trend(measure: str, counts: Sequence[int]) -> dict[int | None, float]:
    """Slope or floor of the published distances, if ours are for the same numbers."""
    if tuple(counts) != PUBLISHED["demonstrations"]:
        return {}
    return {None: float(_TRENDS[measure](np.array(PUBLISHED["distance"]), counts))}
