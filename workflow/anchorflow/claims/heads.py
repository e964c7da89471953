"""The head whose kernel regression agrees most with the model, chosen on other texts ([K] §5.5)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anchorflow.analyses.kernel.summarize import head_keys, head_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import NotMeasured, Run, Sampled
from anchorflow.random_draws import halves
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean_where_defined

NO_OTHERS = "there are no texts to score a head on that it was not chosen on"
ONE_NUMBER = "there is only one number of demonstrations"


Columns = tuple[int, int]  # of the heads to score on half 0 and half 1, each chosen on the other


class Candidates(NamedTuple):
    """The measures of every head by seed, and the half that each text belongs to."""

    agreement: dict[int, Array]  # [examples, heads]: 1 where head and model agree
    # [examples, heads]: of weights with similarity; empty if not measured
    correlation: dict[int, Array]
    permuted: dict[int, Array]  # [examples, heads]: as agreement, with weights permuted
    half: dict[int, NDArray[np.int64]]  # [examples]: 0 or 1
    texts: dict[int, NDArray[np.int64]]  # [examples]
    predictions: dict[int, NDArray[np.int64]]  # [examples], the model's
    heads: pl.DataFrame  # weights, layer, and head of each column

    def best(self, among: pl.Expr | None = None) -> Columns:
        """The heads of highest agreement over all seeds, on each half for the other one."""
        places = self.heads.with_row_index("column")
        columns = (places if among is None else places.filter(among))["column"].to_numpy()
        chosen = []
        for part in (0, 1):
            seen = [
                of[self.half[seed] != part][:, columns].mean(0)
                for seed, of in self.agreement.items()
                if (self.half[seed] != part).any()
            ]
            if not seen:
                raise NotMeasured(NO_OTHERS)
            chosen.append(int(columns[np.mean(seen, 0).argmax()]))
        return chosen[0], chosen[1]

    def of_constant(self) -> dict[int, Array]:
        """As :attr:`agreement`, for a constant: the most frequent prediction of the other half."""
        return {
            seed: agreement_of_constant(predicted, self.half[seed])
            for seed, predicted in self.predictions.items()
        }

    def held_out(self, values: Mapping[int, Array], *heads: Columns) -> Sampled:
        """The mean of values [examples, heads] over some heads, on texts not used to choose them.

        Without ``heads``, values have a single column, which belongs to no head.
        """
        columns = heads or ((0, 0),)
        return Sampled({seed: self._of_seed(seed, of, columns) for seed, of in values.items()})

    def _of_seed(self, seed: int, values: Array, heads: Sequence[Columns]) -> SeedStatistic:
        half = self.half[seed]
        of_parts = [values[:, [each[part] for each in heads]].mean(1) for part in (0, 1)]
        scores = np.stack([np.where(half == part, of_parts[part], np.nan) for part in (0, 1)], 1)
        of_halves = weighted_mean_where_defined(scores)
        return SeedStatistic(
            lambda weights: of_halves(weights).mean(1, keepdims=True), self.texts[seed]
        )


def agreement_of_constant(predictions: NDArray[np.int64], half: NDArray[np.int64]) -> Array:
    """1 where a prediction is the most frequent one of the other half, [examples, 1].

    NaN where the other half is empty.
    """
    agreement = np.full((len(predictions), 1), np.nan)
    for part in (0, 1):
        others = predictions[half != part]
        if len(others):
            here = half == part
            agreement[here, 0] = predictions[here] == np.bincount(others).argmax()
    return agreement


def candidates(run: Run) -> Candidates:
    """All heads as kernel regressions on their largest attention to each demonstration."""
    kernel = run.rows("kernel").filter(pl.col("weights") == "max")
    # A text is in the same half in all seeds, over which heads are chosen.
    half_of = halves(run.rows("kernel_predictions")["example"], 0)
    found: dict[str, dict[int, Any]] = {name: {} for name in Candidates._fields if name != "heads"}
    for seed, of_model in run.by_seed("kernel_predictions").items():
        ordered = of_model.sort("example")
        measures = head_measures(kernel.filter(pl.col("seed") == seed), ordered)
        for name in ("agreement", "correlation", "permuted"):
            if name in measures:
                found[name][seed] = measures[name]
        placed = ordered.select("example").join(half_of, on="example", maintain_order="left")
        found["half"][seed] = placed["half"].to_numpy()
        found["texts"][seed] = texts_of(ordered)
        found["predictions"][seed] = ordered["prediction"].to_numpy()
    return Candidates(**found, heads=head_keys(kernel))


def fewer_demonstrations(run: Run) -> pl.DataFrame:
    """The table ``counts``."""
    run.rows("kernel_predictions")
    if "counts" in run.tables and run.tables["counts"].is_empty():
        raise NotMeasured(ONE_NUMBER)
    return run.rows("counts")
