"""How well attention to label words predicts the model's answers, by layer ([A] §2.3, Fig. 5)."""

from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.attention import ATTENTION_SUMMARY as SUMMARY
from anchorflow.arrays import Array
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import AVERAGE, texts_of
from anchorflow.statistics.estimates import (
    Estimate,
    SeedStatistic,
    Statistic,
    mean_where_defined,
    one_vs_one_auc,
)

# From the tables attention and predictions of one cell to a statistic of its texts.
Auc = Callable[[pl.DataFrame, pl.DataFrame], Statistic]


def cumulative_share(auc: np.ndarray) -> np.ndarray:
    """R_l = Σ_{i≤l} (AUCROC_i − 0.5) / Σ_i (AUCROC_i − 0.5), along the last axis.

    NaN where the excess over 0.5, summed over layers, is not above 0.

    Source: Wang et al. 2023, eq. 5.
    """
    # A layer whose AUC is undefined counts as chance, so that later layers keep their R_l.
    excess = np.where(np.isnan(auc), 0, auc - 0.5)
    total = excess.sum(-1, keepdims=True)
    share: np.ndarray = np.divide(
        np.cumsum(excess, -1), total, out=np.full(excess.shape, np.nan), where=total > 0
    )
    return share


def class_scores(attention: pl.DataFrame, classes: int) -> np.ndarray:
    """Share of each class in the target position's attention to label words.

    A_l(q, p_k) is averaged over heads and over the demonstrations of a class, then divided by its
    sum over classes: examples are compared by the class attended to, not by the total attention
    that label words receive.

    The result is [examples, L, C], with examples and layers in increasing order.
    """
    means = (
        attention.group_by("example", "layer", "label")
        .agg(pl.col("attention_label").cast(pl.Float64).mean())
        .sort("example", "layer", "label")
    )
    layers = attention["layer"].n_unique()
    scores = means["attention_label"].to_numpy().reshape(-1, layers, classes)
    total = scores.sum(-1, keepdims=True)
    # Attention that underflows to 0 for all classes favors none of them.
    shares: np.ndarray = np.divide(
        scores, total, out=np.full(scores.shape, 1 / classes), where=total > 0
    )
    return shares


def to_other_tokens(attention: pl.DataFrame, prompts: pl.DataFrame) -> pl.DataFrame:
    """Attention with its mean over each demonstration's other tokens as that to the label word."""
    run = prompts.filter(pl.col("skipped").is_null(), demonstrations="fixed")
    spans = (
        run.head(1)
        .select(
            # As attention_mean, without a prompt's first token.
            tokens=pl.col("demonstration_ends").explode()
            - pl.col("demonstration_starts").explode().clip(lower_bound=1),
            words=pl.col("label_ends").explode() - pl.col("label_positions").explode(),
        )
        .with_row_index("demonstration")
    )
    of_all = pl.col("attention_mean").cast(pl.Float64) * pl.col("tokens")
    # Rounding in float32 may leave a rest below 0.
    of_others = (of_all - pl.col("attention_label").cast(pl.Float64)).clip(0)
    return attention.join(
        spans.cast({"demonstration": attention.schema["demonstration"]}), on="demonstration"
    ).with_columns(attention_label=of_others / (pl.col("tokens") - pl.col("words")))


def auc_of_predictions(attention: pl.DataFrame, predictions: pl.DataFrame) -> Statistic:
    """AUCROC_l of :func:`class_scores` against the model's own predictions, [R, L].

    The target predicts first tokens, so labels whose words share theirs are one class.

    Source: Wang et al. 2023, §2.3.
    """
    classes, class_of = _classes(attention, predictions)
    predicted = predictions.sort("example")["prediction"].replace(class_of)
    scores = class_scores(classes, len(set(class_of.values())))
    return one_vs_one_auc(scores, predicted.to_numpy().astype(np.int64))


def graded_auc(attention: pl.DataFrame, predictions: pl.DataFrame) -> Statistic:
    """How well :func:`class_scores` order texts by the classes' probabilities, [R, L].

    For each class, the share of pairs of texts of which the one with the higher probability has the
    higher score, half of those with equal scores; then the mean over classes. As
    :func:`auc_of_predictions`, but defined where a model always gives the same answer; 0.5 if
    scores and probabilities are independent, and NaN where no probabilities differ.
    """
    classes, number = _classes(attention, predictions)
    scores = class_scores(classes, len(set(number.values())))  # [examples, L, C]
    of_labels = np.stack(predictions.sort("example")["probabilities"].to_list())
    probabilities = np.zeros((len(of_labels), scores.shape[2]))
    np.add.at(probabilities.T, list(number.values()), of_labels[:, list(number)].T)
    higher = probabilities[:, None] > probabilities[None]  # [examples, examples, C]

    def statistic(weights: Array) -> Array:
        shares = np.full((len(weights), *scores.shape[1:]), np.nan)
        for place in range(scores.shape[2]):
            pairs = ((weights @ higher[..., place]) * weights).sum(1)
            for layer in range(scores.shape[1]):  # one at a time, since pairs may be many
                score = scores[:, layer, place]
                won = (score[:, None] > score[None]) + 0.5 * (score[:, None] == score[None])
                total = ((weights @ (won * higher[..., place])) * weights).sum(1)
                np.divide(total, pairs, out=shares[:, layer, place], where=pairs > 0)
        return mean_where_defined(shares, 2)

    return statistic


def mean_graded(attention: pl.DataFrame, predictions: pl.DataFrame) -> pl.DataFrame:
    """Means of :func:`graded_auc` over models and seeds, per task and over tasks."""
    cell, parts = ["model", "task", "seed"], []
    for key, rows in attention.group_by(cell, maintain_order=True):
        predicted = predictions.filter(**dict(zip(cell, key, strict=True)))
        (aucs,) = graded_auc(rows, predicted)(np.ones((1, predicted["example"].n_unique())))
        of_cell = {"task": str(key[1]), "layer": layers_of(rows), "mean": aucs}
        parts.append(pl.DataFrame(of_cell).with_columns(pl.col("mean").fill_nan(None)))
    means = pl.concat(parts).group_by("task", "layer", maintain_order=True).agg(pl.mean("mean"))
    average = means.group_by("layer", maintain_order=True).agg(pl.mean("mean"))
    return pl.concat([means, average.select(pl.lit(AVERAGE).alias("task"), "layer", "mean")])


def _classes(
    attention: pl.DataFrame, predictions: pl.DataFrame
) -> tuple[pl.DataFrame, dict[int, int]]:
    """Attention with classes in place of labels, and the class of each label."""
    groups = predictions["token_groups"][0].to_list()
    numbers = {first: place for place, first in enumerate(sorted(set(groups)))}
    class_of = {label: numbers[first] for label, first in enumerate(groups)}
    return attention.with_columns(pl.col("label").replace(class_of)), class_of


def summarize_attention(
    attention: pl.DataFrame, predictions: pl.DataFrame, prompts: pl.DataFrame, confidence: float
) -> pl.DataFrame:
    """AUCROC_l against the model's own predictions, R_l, AUCROC_l of other tokens, graded forms.

    Classes that the model never predicts for a task and seed are left out there, and counted.
    """
    by_task.require_examples(predictions)
    layers = attention["layer"].n_unique()

    def of_seed(
        rows: pl.DataFrame, auc: Auc = auc_of_predictions, others: bool = False
    ) -> SeedStatistic:
        cell = rows.select("task", "seed").unique()
        predicted = predictions.join(cell, on=["task", "seed"])
        if others:
            rows = to_other_tokens(rows, prompts.join(cell, on=["task", "seed"]))
        return SeedStatistic(auc(rows, predicted), texts_of(predicted))

    def estimated(auc: Auc, others: bool = False) -> dict[str, Estimate]:
        of_auc = partial(of_seed, auc=auc, others=others)
        return by_task.estimates_by_task(attention, tasks, of_auc, layers)

    tasks = attention["task"].unique(maintain_order=True).to_list()
    aucs = estimated(auc_of_predictions)
    unpredicted = _unpredicted(predictions)
    estimates = {
        "auc": aucs,
        "cumulative": {task: auc.map(cumulative_share) for task, auc in aucs.items()},
        "auc_other": estimated(auc_of_predictions, others=True),
        "graded": estimated(graded_auc),
        "graded_other": estimated(graded_auc, others=True),
    }
    parts = []
    for measure in SUMMARY.measured:
        keys = pl.DataFrame({"layer": layers_of(attention), "measure": [measure] * layers})
        parts.append(
            by_task.summary_rows(estimates[measure], keys, predictions, confidence, SUMMARY.bounds)
        )
    rows = pl.concat(parts).with_columns(
        pl.col("task").replace_strict(unpredicted, return_dtype=pl.Int32).alias("unpredicted")
    )
    return by_task.summary_table(rows, predictions, SUMMARY)


def _unpredicted(predictions: pl.DataFrame) -> dict[str, int]:
    """Number of classes never predicted, summed over seeds: per task, and over all tasks."""
    predicted = pl.col("token_groups").list.get(pl.col("prediction"))
    of_seeds = predictions.group_by("task", "seed", maintain_order=True).agg(
        never=pl.col("token_groups").first().list.n_unique().cast(pl.Int64)
        - predicted.n_unique().cast(pl.Int64)
    )
    of_tasks = of_seeds.group_by("task", maintain_order=True).agg(pl.col("never").sum())
    return {**dict(of_tasks.iter_rows()), AVERAGE: of_seeds["never"].sum()}
