"""Kernel regression with one head's attention compared with a constant prediction ([K] §5.1)."""

from dataclasses import replace

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.random_draws import halves
from anchorflow.summarize.accuracy import accuracy_measures
from anchorflow.summarize.claims._claim import Claim, Curve, Depth, Run, Sampled
from anchorflow.summarize.claims._effects import Statistic, sampled
from anchorflow.summarize.regressors import choose_head, head_scores
from anchorflow.summarize.statistics import Estimate, weighted_mean_where_defined

READS = ("kernel", "kernel_predictions")


def head_over_constant(run: Run) -> Sampled:
    """Held-out agreement of the best head minus that of a constant prediction.

    The head is chosen by ``regressors.choose_head``, with its largest attention to each
    demonstration as weights. The constant is the label that the model predicts most often with the
    seed's demonstrations, on the same examples that are scored.
    """
    predictions, kernel = run.seeds("kernel_predictions"), run.rows("kernel")
    half_of = halves(run.rows("kernel_predictions")["example"], 0)
    seeds = []
    for told in predictions:
        of_seed = (pl.col("seed") == told["seed"][0]) & (pl.col("weights") == "max")
        scores = head_scores(kernel.filter(of_seed), told, half_of)
        seeds.append((_beside_constant(scores, told), len(told)))
    both = sampled(run, seeds)
    _, held_out = choose_head(both.estimate.map(lambda of: of[..., :-1]))
    constant = both.estimate.map(lambda of: of[..., -1:])
    gained = Estimate(
        held_out.values[1:] - constant.values, held_out.replicates[:, 1:] - constant.replicates
    )
    return replace(both, estimate=gained)


def _beside_constant(scores: Array, predictions: pl.DataFrame) -> Statistic:
    """Means of the heads' scores, then the share of the most frequent prediction."""
    told, classes = predictions["prediction"].to_numpy(), len(predictions["probabilities"][0])
    of_heads = weighted_mean_where_defined(scores)
    majority = accuracy_measures(told, told, classes)
    return lambda weights: np.concatenate([of_heads(weights), majority(weights)[:, 2:]], 1)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "heads_reconstruct",
        "Attention of one head, as kernel weights, predicts what the model predicts",
        "[K] §5.1",
        "held-out agreement of the best head minus that of always giving the model's most frequent "
        "answer",
        "share of predictions agreeing",
        head_over_constant,
        "there are no texts to score a head on that it was not chosen on",
        over_depth=Depth(
            "agreement of each layer's best head",
            (Curve("best head", "heads", {"measure": "agreement", "weights": "max"}),),
        ),
    ),
)
