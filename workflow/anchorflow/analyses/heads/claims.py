"""Heads that copy label words, and whether other scores agree ([H] §1 and §4)."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.heads.summarize import WITHOUT_TEXTS, head_matrix, with_difference
from anchorflow.analyses.kernel.summarize import head_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import mean_of_examples
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import (
    SeedStatistic,
    mean_where_defined,
    rank_correlations,
    weighted_mean,
)

READS = ("heads", "kernel", "kernel_predictions", "reweighting_beta")


def _of_score(run: Run, score: str) -> dict[int, pl.DataFrame]:
    """Rows of one score by seed."""
    seeds = {seed: rows.filter(score=score) for seed, rows in run.by_seed("heads").items()}
    found = {seed: rows for seed, rows in seeds.items() if not rows.is_empty()}
    if not found:
        raise NotMeasured(
            f"the run does not score heads by {score}",
            "heads: {scores: [prefix_matching, writing]}",
        )
    return found


def negative_heads(run: Run) -> Sampled:
    """Share of heads with negative label copy minus that at matched tokens of the texts.

    Of heads that attend to neither, none is negative.
    """
    seeds = {}
    for seed, rows in _of_score(run, "label_copy").items():
        copied, matched = (head_matrix(rows, column) for column in ("value", "control"))
        difference = np.where(np.isnan(copied + matched), np.nan, copied < 0) - (matched < 0)
        seeds[seed] = mean_of_examples(rows, mean_where_defined(difference, 1))
    return Sampled(seeds)


def reads_and_writes(run: Run, measure: str = "agreement") -> Sampled:
    """Rank correlation of label copy with agreement as kernel regression, within layers."""
    kernel = run.rows("kernel").filter(weights="max")
    of_model = run.by_seed("kernel_predictions")
    agreement = {
        seed: head_measures(kernel.filter(seed=seed), rows.sort("example"))[measure].mean(0)
        for seed, rows in of_model.items()
    }
    return _over_heads(run, "label_copy", agreement)


def fitted_where_copied(run: Run, score: str = "label_copy") -> Sampled:
    """Rank correlation of a score with β, averaged over demonstrations, within layers."""
    means = {}
    for seed, rows in run.by_seed("reweighting_beta").items():
        of_heads = rows.group_by("layer", "head").agg(pl.col("beta").mean()).sort("layer", "head")
        means[seed] = of_heads["beta"].to_numpy()
    return _over_heads(run, score, means)


def _over_heads(run: Run, score: str, others: dict[int, Array]) -> Sampled:
    """Rank correlation of mean scores with other values of heads, by seed.

    Ranks are compared within layers, since scores of most kinds are high in the same layers. A
    score that has no texts counts as the same for all texts of label copy.
    """
    seeds = {}
    of_texts = _of_score(run, "label_copy")
    for seed, rows in _of_score(run, score).items():
        if seed in others and seed in of_texts:
            values = head_matrix(with_difference(rows), "difference")
            texts = texts_of(of_texts[seed])
            if score in WITHOUT_TEXTS:
                values = np.broadcast_to(values.mean(0), (len(texts), values.shape[1]))
            statistic = partial(_agreement, values, others[seed], rows["layer"].n_unique())
            seeds[seed] = SeedStatistic(statistic, texts)
    lacking = "heads are scored for other seeds than those of what is compared"
    return Sampled.of_any(seeds, lacking)


def _agreement(values: Array, others: Array, layers: int, weights: Array) -> Array:
    means = weighted_mean(values)(weights)
    return rank_correlations(means, np.broadcast_to(others, means.shape), layers)[..., None]


_of_heads = partial(
    Claim,
    form=DISCRIMINATING,
    figure="heads",
    asked_for={"heads": "heads: {scores: [prefix_matching, writing, task, gathering]}"},
)

CLAIMS = (
    _of_heads(
        "cancelling_heads_exist",
        "Heads that write against the labels that they attend to are more than by chance",
        "[H] §1",
        "share of heads with negative label copy minus that with matched tokens of the texts in "
        "place of label words",
        "share of heads",
        negative_heads,
        Control.subtracted("matched tokens of the texts"),
    ),
    _of_heads(
        "reading_heads_write",
        "Heads that kernel regression finds by their attention are those that copy label words",
        "[H] §4",
        "rank correlation, over heads of the same layer, of label copy with agreement of kernel "
        "regression on the head with the model",
        "rank correlation",
        reads_and_writes,
        Control(
            "kernel regression with weights permuted among demonstrations",
            partial(reads_and_writes, measure="permuted"),
        ),
    ),
    _of_heads(
        "beta_where_copied",
        "Weights of attention are fitted highest in heads that copy label words",
        "[H] §4",
        "rank correlation, over heads of the same layer, of label copy with β, averaged over "
        "demonstrations",
        "rank correlation",
        fitted_where_copied,
        Control(
            "prefix matching in place of label copy",
            partial(fitted_where_copied, score="prefix_matching"),
        ),
        null="",
    ),
)
