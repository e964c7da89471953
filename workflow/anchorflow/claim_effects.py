"""Effects of the papers' claims on one model and task: above 0 where a claim holds.

What is compared is compared on the same examples, so that resampling them keeps it paired.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from anchorflow.accuracy import accuracy_measures
from anchorflow.confusion import confusion_measures
from anchorflow.deep import auc_of_predictions, cumulative_share
from anchorflow.depth import first_third, last_third
from anchorflow.draws import generator, halves
from anchorflow.flow import FLOWS, SCALES, flows_and_shares
from anchorflow.loyalty import by_draw, loyalty_measures, mean_over_draws
from anchorflow.regressors import choose_head, head_scores
from anchorflow.retention import retention_measures
from anchorflow.statistics import (
    Array,
    Estimate,
    bootstrap,
    mean_where_defined,
    weighted_mean,
    weighted_mean_where_defined,
)
from anchorflow.summaries import per_seed

Statistic = Callable[[Array], Array]
Thirds = Callable[[int], slice]  # first_third or last_third


@dataclass(frozen=True)
class Run:
    """What was measured of one model and task, over all seeds."""

    task: str
    tables: Mapping[str, pl.DataFrame]  # by the names that ``claims.summarize_claims`` lists
    variant: str  # of isolation
    replicates: int

    def seeds(self, table: str) -> list[pl.DataFrame]:
        """The rows of one seed after the other.

        Raises
        ------
        NotTested
            If there are none.
        """
        if self.tables[table].is_empty():
            raise NotTested("no prompt fits the model's context")
        return list(per_seed(self.tables[table]))

    def random(self, *purpose: str | int) -> np.random.Generator:
        """A generator of this task, the same for all claims, so that they share examples."""
        return generator(0, "claims", self.task, *purpose)


def _unchanged(values: Array) -> Array:
    return values


class NotTested(Exception):  # noqa: N818 - that a run lacks something is no error
    """The run lacks what a claim is about; the message says what."""


@dataclass(frozen=True)
class Sampled:
    """What an effect is made of, with bootstrap replicates over seeds and examples."""

    estimate: Estimate  # of K values, to be averaged over tasks
    examples: int
    seeds: int
    made: Callable[[Array], Array] = _unchanged  # [..., K] into the effect, [..., 1]

    @property
    def effect(self) -> Estimate:
        """The effect itself, one value."""
        return self.estimate.map(self.made)


@dataclass(frozen=True)
class Timed:
    """An effect between two bounds made of the quartiles of timings; no bootstrap."""

    value: float
    low: float
    high: float
    runs: int


class _OfSeed(NamedTuple):
    statistic: Statistic
    examples: int


def _mean(values: Array) -> _OfSeed:
    """The mean of [examples]."""
    return _OfSeed(weighted_mean(values[:, None]), len(values))


def _sampled(
    run: Run, seeds: list[_OfSeed], effect: Callable[[Array], Array] = _unchanged
) -> Sampled:
    """Bootstrap over seeds and examples; ``effect`` maps the mean over seeds, [..., K], to one."""
    estimate = bootstrap(
        [seed.statistic for seed in seeds],
        [seed.examples for seed in seeds],
        run.replicates,
        run.random(),
    ).map(effect)
    return Sampled(estimate, sum(seed.examples for seed in seeds), len(seeds))


def _several_layers(layers: int) -> int:
    if layers == 1:
        raise NotTested("the model has a single layer")
    return layers


def _mean_of(values: Array, layers: slice) -> Array:
    """[..., 1]: the mean over some of the layers, the last axis."""
    return mean_where_defined(values[..., layers], -1)[..., None]


def _shares(run: Run, flow: str) -> list[Array]:
    """A flow's share of all three, [examples, L] for each seed."""
    seeds = run.seeds("saliency")
    layers = run.tables["saliency"]["layer"].n_unique()
    return [
        flows_and_shares(seed, layers)[..., FLOWS.index(flow), SCALES.index("proportion")]
        for seed in seeds
    ]


def flow_over(run: Run, more: str, less: str, where: Thirds) -> Sampled:
    """Share of one flow minus that of another, mean over a third of the layers."""
    pairs = zip(_shares(run, more), _shares(run, less), strict=True)
    differences = [first - second for first, second in pairs]
    seeds = [_mean(each[:, where(each.shape[1])].mean(1)) for each in differences]
    return _sampled(run, seeds)


def flow_decay(run: Run, flow: str) -> Sampled:
    """Share of one flow in the first third of the layers minus that in the last third."""
    shares = _shares(run, flow)
    layers = _several_layers(shares[0].shape[1])
    early, late = first_third(layers), last_third(layers)
    return _sampled(run, [_mean(each[:, early].mean(1) - each[:, late].mean(1)) for each in shares])


Chosen = Mapping[str, Any]  # columns and the values that some rows have in them


def _rows_with(rows: pl.DataFrame, chosen: Chosen) -> pl.DataFrame:
    return rows.filter(pl.col(name).eq_missing(value) for name, value in chosen.items())


def _difference(
    run: Run, measured: pl.DataFrame, more: Chosen, less: Chosen, measure: str
) -> list[_OfSeed]:
    """A measure of some rows minus that of others, by seed, draws resampled on either side.

    Seeds that lack either are left out.
    """
    seeds = []
    for rows in per_seed(measured):
        chosen = [_rows_with(rows, each) for each in (more, less)]
        if any(each.is_empty() for each in chosen):
            continue
        random = run.random("draws", rows["seed"][0])
        values = [by_draw(each, [measure]) for each in chosen]
        means = [mean_over_draws(each, run.replicates, random) for each in values]
        seeds.append(_OfSeed(_minus(*means), values[0].shape[1]))
    return seeds


def _minus(first: Statistic, second: Statistic) -> Statistic:
    return lambda weights: first(weights) - second(weights)


def isolation_over(run: Run, more: Chosen, less: Chosen) -> Sampled:
    """Label loyalty in one setting of isolation minus another's, in as many layers as at most."""
    run.seeds("isolation")
    rows = run.tables["isolation"]
    most = rows["layers"].max()
    depth = run.tables["attention"]["layer"].n_unique()
    if most == depth and more.get("side") != less.get("side"):
        raise NotTested("all layers are isolated, so that the first are the last")
    isolated = (pl.col("variant") == run.variant) & (pl.col("layers") == most)
    measured = loyalty_measures(rows.filter(isolated | (pl.col("positions") == "none")))
    return _sampled(run, _difference(run, measured, more, less, "label_loyalty"))


def auc_rise(run: Run) -> Sampled:
    """AUCROC_l, mean of the last third of the layers minus that of the first third."""
    seeds, layers = _aucs(run)
    early, late = first_third(layers), last_third(layers)
    return _sampled(run, seeds, lambda auc: _mean_of(auc, late) - _mean_of(auc, early))


def late_gain(run: Run) -> Sampled:
    """Share of R_l gained in the upper half of the layers, minus a half.

    Of an odd number of layers, half of what the one in the middle gains counts. Over tasks, R_l is
    that of the mean AUC, as in ``tables.DEEP``: a share has no mean where there is little to share.
    """
    seeds, layers = _aucs(run)
    upper = np.clip(np.arange(1, layers + 1) - layers / 2, 0, 1)

    def beyond_half(auc: Array) -> Array:
        gains = np.diff(cumulative_share(auc), axis=-1, prepend=0)
        beyond: Array = (gains @ upper)[..., None] - 0.5
        return beyond

    return replace(_sampled(run, seeds), made=beyond_half)


def _aucs(run: Run) -> tuple[list[_OfSeed], int]:
    """AUCROC_l by seed, and the number of layers."""
    pairs = zip(run.seeds("attention"), run.seeds("predictions"), strict=True)
    layers = _several_layers(run.tables["attention"]["layer"].n_unique())
    return [_OfSeed(auc_of_predictions(a, told), len(told)) for a, told in pairs], layers


def accuracy_over(run: Run, table: str, column: str, more: str, less: str) -> Sampled:
    """Accuracy of one way to predict minus another's, on the examples that both were run on."""
    seeds = []
    for rows in run.seeds(table):
        right = rows.with_columns(right=(pl.col("prediction") == pl.col("label")).cast(pl.Float64))
        chosen = [right.filter(pl.col(column) == each) for each in (more, less)]
        pairs = chosen[0].join(chosen[1], on="example", suffix="_less").sort("example")
        if not pairs.is_empty():
            seeds.append(_mean((pairs["right"] - pairs["right_less"]).to_numpy()))
    if not seeds:
        raise NotTested(
            f"no example was run with both {more} and {less}: prompts exceed the context, or the "
            "configuration leaves one out"
        )
    return _sampled(run, seeds)


def anchors_over(run: Run, other: str, measure: str) -> Sampled:
    """What the anchors' keys and values retain minus what another method retains, as many tokens.

    ``hidden_random_top`` is the best of the random draws, chosen on the other half of the texts.
    """
    run.seeds("compression")
    measured = retention_measures(run.tables["compression"])
    for method in ("hidden_anchor", other.removesuffix("_top")):
        if _rows_with(measured, {"method": method, "share": None}).is_empty():
            raise NotTested(f"compression.methods lacks {method}")
    anchors, others = ({"method": each, "share": None} for each in ("hidden_anchor", other))
    seeds = _difference(run, measured, anchors, others, measure)
    if not seeds:
        raise NotTested("a single test text leaves no other to choose a draw by")
    return _sampled(run, seeds)


def time_saved(run: Run) -> Timed:
    """Time per query of full prompts over that behind the anchors, minus 1.

    Its bounds compare the quartiles that lie closest and farthest.
    """
    run.seeds("timing")
    timing = run.tables["timing"]
    full, anchors = (
        timing.row(by_predicate=pl.col("way") == way, named=True)
        for way in ("full_prompt", "hidden_anchor")
    )
    return Timed(
        full["milliseconds"] / anchors["milliseconds"] - 1,
        full["low"] / anchors["high"] - 1,
        full["high"] / anchors["low"] - 1,
        anchors["runs"],
    )


def confusion_told(run: Run) -> Sampled:
    """Rank correlation of key distance with pairwise AUC, mean of the last third of the layers."""
    diagnosis, seeds = run.tables["diagnosis"], run.seeds("predictions")
    if len(seeds[0]["probabilities"][0]) < 3:
        raise NotTested("a rank correlation needs three labels or more")
    layers = diagnosis["layer"].n_unique()
    measured = [
        _OfSeed(
            confusion_measures(seed, diagnosis.filter(pl.col("seed") == seed["seed"][0])),
            len(seed),
        )
        for seed in seeds
    ]
    return _sampled(run, measured, lambda of: _mean_of(of[..., -layers:], last_third(layers)))


def head_over_constant(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that of always giving one label.

    The head is the one that ``regressors.choose_head`` chooses by its largest attention to a
    demonstration; the label is the one that the model predicts most often with the seed's
    demonstrations, on the very examples that are scored.
    """
    predictions, kernel = run.seeds("kernel_predictions"), run.tables["kernel"]
    half_of = halves(run.tables["kernel_predictions"]["example"], 0)
    seeds = []
    for told in predictions:
        of_seed = (pl.col("seed") == told["seed"][0]) & (pl.col("weights") == "max")
        scores = head_scores(kernel.filter(of_seed), told, half_of)
        seeds.append(_OfSeed(_beside_constant(scores, told), len(told)))
    sampled = _sampled(run, seeds)
    _, held_out = choose_head(sampled.estimate.map(lambda of: of[..., :-1]))
    constant = sampled.estimate.map(lambda of: of[..., -1:])
    gained = Estimate(
        held_out.values[1:] - constant.values, held_out.replicates[:, 1:] - constant.replicates
    )
    return replace(sampled, estimate=gained)


def _beside_constant(scores: Array, predictions: pl.DataFrame) -> Statistic:
    """Means of the heads' scores, then the share of the most frequent prediction."""
    told, classes = predictions["prediction"].to_numpy(), len(predictions["probabilities"][0])
    of_heads = weighted_mean_where_defined(scores)
    shares = accuracy_measures(told, told, classes)
    return lambda weights: np.concatenate([of_heads(weights), shares(weights)[:, 2:]], 1)
