"""In-context learning compared with regressions on the same demonstrations ([K] §5.5, Table 2).

Kernel regression with the attention of one head or with a sentence encoder, and logistic regression
on the encoder's embeddings; with as many demonstrations as the budget allows, and with fewer. With
fewer demonstrations, the model is also compared with itself with all of them.
"""

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from anchorflow.analyses.kernel.summarize import (
    by_half,
    choose_head,
    counted_measures,
    head_keys,
    head_measures,
)
from anchorflow.analyses.regressors import REGRESSORS_SUMMARY
from anchorflow.arrays import Array
from anchorflow.config.table import SHARE
from anchorflow.random_draws import halves
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import AVERAGE, texts_of
from anchorflow.statistics.estimates import (
    Estimate,
    SeedStatistic,
    average,
    weighted_mean,
    weighted_mean_where_defined,
)

MEASURES = ("accuracy", "agreement")
BOUNDS = dict.fromkeys(MEASURES, SHARE)
ENCODER = "all-minilm-l6-v2"  # of [K] Table 2
Labels = NDArray[np.int64]
Vectors = Mapping[tuple[str, int], Array]  # embeddings by split and row


class Method(NamedTuple):
    """A method and its number of demonstrations per label; None: all demonstrations."""

    name: str
    weights: str | None = None
    per_label: int | None = None


class Encoder(NamedTuple):
    """A sentence encoder as a method: its name, its embeddings, and its temperature."""

    name: str
    vectors: Vectors
    temperature: float


def encoder_prediction(
    queries: Array, demonstrations: Array, labels: Labels, temperature: float
) -> Labels:
    """Kernel regression with weights exp(cosine / temperature).

    ``queries``, [B, E], and ``demonstrations``, [N, E], are embeddings of unit length, and
    ``labels`` are [N]. The result, [B], is the label with the largest sum of weights.
    """
    cosine = queries @ demonstrations.T
    weights = np.exp((cosine - cosine.max(1, keepdims=True)) / temperature)
    sums = weights @ np.eye(labels.max() + 1)[labels]
    predicted: Labels = sums.argmax(1)
    return predicted


def logistic_prediction(queries: Array, demonstrations: Array, labels: Labels) -> Labels:
    """Logistic regression on the embeddings with scikit-learn's default penalty, [B]."""
    with warnings.catch_warnings():
        # scikit-learn suspects a regression where each of many labels has one demonstration.
        warnings.filterwarnings("ignore", "The number of unique classes")
        fitted = LogisticRegression(max_iter=1000).fit(demonstrations, labels)
    return np.asarray(fitted.predict(queries))


# Han et al. 2025, Table 2, for GPT-J-6B, by our names of method and measure; one share per task.
_KERNEL_TASKS = ("sst2", "mnli", "rotten_tomatoes", "hate", "irony", "offensive")
_KERNEL_TABLE_2 = {
    ("in_context", "accuracy"): (0.805, 0.383, 0.671, 0.539, 0.519, 0.542),
    ("head_held_out", "agreement"): (0.797, 0.597, 0.683, 0.713, 0.722, 0.753),
    ("head_held_out", "accuracy"): (0.750, 0.360, 0.527, 0.587, 0.522, 0.513),
    ("encoder", "accuracy"): (0.503, 0.321, 0.478, 0.548, 0.491, 0.588),
}


def kernel_table_2(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[K] Table 2, for a model and tasks named as in ``config/paper.yaml``.

    Its "reconstruction of the output" is the agreement of the best head, and its "task performance"
    the accuracy of this head; the encoder is all-MiniLM-L6-v2. The values are shares; no average
    was published.
    """
    rows = [
        (task, method, measure, share)
        for (method, measure), shares in _KERNEL_TABLE_2.items()
        for task, share in zip(_KERNEL_TASKS, shares, strict=True)
        if model == "gpt-j-6b" and task in tasks
    ]
    return pl.DataFrame(rows, schema=by_task.PUBLISHED, orient="row")


def summarize_regressors(
    kernel: pl.DataFrame,
    predictions: pl.DataFrame,
    counts: pl.DataFrame,
    samples: pl.DataFrame,
    prompts: pl.DataFrame,
    embeddings: pl.DataFrame,
    temperature: float,
    encoder: str,
    further_temperatures: Mapping[str, float],
    chosen_on: float,
    confidence: float,
    further_embeddings: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Accuracy and agreement with the model, by method and number of demonstrations.

    All methods are scored on the same examples. The average covers only methods and numbers of
    demonstrations that every task and seed has.

    Tables are those of the kernel stage. ``encoder`` is a path; the published row is included if it
    is the paper's encoder. ``temperature`` is that of :func:`encoder_prediction`, and
    ``further_temperatures`` are those of further encoders, by name. ``chosen_on`` is the share of
    the texts on which the held-out head is chosen; see :func:`choose_head`.
    """
    by_task.require_examples(predictions)
    of_task: dict[str, dict[Method, Estimate]] = {}
    used: dict[str, dict[Method, float]] = {}
    for (task,), rows in predictions.group_by("task", maintain_order=True):
        name = str(task)
        here = pl.col("task") == name
        drawn = samples.filter(here)
        encoders = [Encoder("encoder", vectors_of(embeddings.filter(here), drawn), temperature)]
        for further, of_further in further_temperatures.items():
            assert further_embeddings is not None
            embedded = further_embeddings.filter(here, pl.col("encoder") == further)
            encoders.append(Encoder(f"encoder_{further}", vectors_of(embedded, drawn), of_further))
        of_task[name], used[name] = _task(
            rows, kernel.filter(here), counts.filter(here), drawn, encoders, chosen_on
        )
    tasks = list(of_task)
    everywhere = [m for m in of_task[tasks[0]] if all(m in of_task[task] for task in tasks)]
    of_task[AVERAGE] = {m: average([of_task[task][m] for task in tasks]) for m in everywhere}
    used[AVERAGE] = {m: float(np.mean([used[task][m] for task in tasks])) for m in everywhere}
    parts = []
    for task, estimates in of_task.items():
        for method, estimate in estimates.items():
            measures = MEASURES[: estimate.values.shape[-1]]
            keys = pl.DataFrame({"measure": measures}).with_columns(
                pl.lit(method.name).alias("method"),
                pl.lit(method.weights, pl.String).alias("weights"),
                pl.lit(method.per_label, pl.Int32).alias("demonstrations_per_label"),
                pl.lit(used[task][method]).alias("demonstrations"),
            )
            parts.append(
                by_task.summary_rows({task: estimate}, keys, predictions, confidence, BOUNDS)
            )
    of_paper = kernel_table_2(predictions["model"][0], tasks)
    if ENCODER not in encoder.lower().replace("_", "-"):
        of_paper = of_paper.filter(pl.col("method") != "encoder")
    published = of_paper.with_columns(
        pl.when(pl.col("method") == "head_held_out").then(pl.lit("max")).alias("weights"),
        pl.lit(None, pl.Int32).alias("demonstrations_per_label"),
    )
    known = pl.concat(parts).join(
        published,
        on=["task", "method", "measure", "weights", "demonstrations_per_label"],
        how="left",
        maintain_order="left",
        nulls_equal=True,
    )
    skipped = by_task.skipped_prompts(prompts, "kernel")
    return by_task.summary_table(known, predictions, REGRESSORS_SUMMARY, skipped)


def _task(
    predictions: pl.DataFrame,
    kernel: pl.DataFrame,
    counts: pl.DataFrame,
    samples: pl.DataFrame,
    encoders: Sequence[Encoder],
    chosen_on: float,
) -> tuple[dict[Method, Estimate], dict[Method, float]]:
    """Estimates and mean numbers of demonstrations of one task."""
    hits: dict[Method, dict[int, Array]] = {}
    sizes: dict[Method, list[int]] = {}
    for seed in by_task.per_seed(predictions):
        number = seed["seed"][0]
        drawn = samples.filter(seed=number)
        fewer = counts.filter(seed=number)
        found = _seed(seed, fewer, drawn, encoders)
        classes = len(seed["probabilities"][0])
        for method, values in found.items():
            hits.setdefault(method, {})[number] = values
            most = len(drawn["demonstration_rows"][0])
            used = classes * method.per_label if method.per_label else most
            sizes.setdefault(method, []).append(used)
    # A number of demonstrations is included only if all seeds have it.
    seeds = predictions["seed"].n_unique()
    estimates = {
        method: by_task.estimate_over_seeds(predictions, partial(_mean_hits, of_seeds))
        for method, of_seeds in hits.items()
        if len(of_seeds) == seeds
    }
    means = {method: float(np.mean(sizes[method])) for method in estimates}
    full = means[Method("in_context")]
    classes = len(predictions["probabilities"][0])
    for method, estimate in _heads(kernel, predictions, counts, chosen_on).items():
        estimates[method] = estimate
        means[method] = float(classes * method.per_label) if method.per_label else full
    return estimates, means


def _mean_hits(of_seeds: Mapping[int, Array], seed: pl.DataFrame) -> SeedStatistic:
    hits = of_seeds[seed["seed"][0]]
    return SeedStatistic(weighted_mean(hits), texts_of(seed))


def vectors_of(embeddings: pl.DataFrame, samples: pl.DataFrame) -> dict[tuple[str, int], Array]:
    """Embeddings of the test texts and demonstrations, by split and row."""
    used = pl.concat(
        [
            samples.select(pl.lit("test").alias("split"), pl.col("example").alias("row")),
            samples.select(
                pl.lit("train").alias("split"), pl.col("demonstration_rows").alias("row")
            ).explode("row"),
        ]
    ).unique()
    rows = embeddings.join(used, on=["split", "row"], how="semi")
    return {
        (split, row): np.array(vector)
        for split, row, vector in rows.select("split", "row", "embedding").iter_rows()
    }


def _seed(
    predictions: pl.DataFrame,
    counts: pl.DataFrame,
    samples: pl.DataFrame,
    encoders: Sequence[Encoder],
) -> dict[Method, Array]:
    """Hits of every method on every example of one seed, [examples, 1 or 2], as ``MEASURES``."""
    ordered = predictions.sort("example")
    examples, true = ordered["example"], ordered["label"].to_numpy()
    first = samples.row(0, named=True)
    demonstrations = first["demonstration_rows"]
    groups = np.array(predictions["token_groups"][0])  # merged by the kernel stage
    labels = groups[first["demonstration_labels"]]
    classes = len(predictions["probabilities"][0])
    answers: dict[int | None, pl.DataFrame] = {
        count: rows.sort("example")
        for (count,), rows in counts.filter(pl.col("example").is_in(examples.implode())).group_by(
            "demonstrations_per_label", maintain_order=True
        )
    }
    hits = {}
    for per_label, of_model in [*answers.items(), (None, ordered)]:
        model = of_model["prediction"].to_numpy()
        some = slice(None) if per_label is None else slice(per_label * classes)
        right, stays = model == true, model == ordered["prediction"].to_numpy()
        of_model_itself = np.stack([right, stays] if per_label else [right], 1)
        hits[Method("in_context", None, per_label)] = of_model_itself.astype(float)
        for number, (name, vectors, temperature) in enumerate(encoders):
            queries = np.stack([vectors["test", row] for row in examples])
            every = np.stack([vectors["train", row] for row in demonstrations])[some]
            found = {name: encoder_prediction(queries, every, labels[some], temperature)}
            if number == 0:
                found["encoder_logistic"] = logistic_prediction(queries, every, labels[some])
            for method, predicted in found.items():
                both = np.stack([predicted == true, predicted == model], 1)
                hits[Method(method, None, per_label)] = both.astype(float)
    return hits


def _heads(
    kernel: pl.DataFrame, predictions: pl.DataFrame, counts: pl.DataFrame, chosen_on: float
) -> dict[Method, Estimate]:
    """The best head for each kind of weights, chosen on the same texts and on other texts.

    A head is a property of the model, so it is chosen over all seeds at once; a text is in the same
    half in every seed. With fewer demonstrations, it is chosen anew for each number of them.
    """
    half_of = halves(predictions["example"], 0, chosen_on)

    def scored(measures: Mapping[str, Array], texts: pl.DataFrame) -> SeedStatistic:
        scores = by_half(measures["agreement"], measures["accuracy"], texts["example"], half_of)
        return SeedStatistic(weighted_mean_where_defined(scores), texts_of(texts))

    def of_seed(rows: pl.DataFrame) -> SeedStatistic:
        predicted = predictions.filter(seed=rows["seed"][0]).sort("example")
        return scored(head_measures(rows, predicted), predicted)

    def of_count(rows: pl.DataFrame) -> SeedStatistic:
        ordered = rows.sort("example")
        return scored(counted_measures(ordered), ordered)

    estimates = {}

    def choose(scores: Estimate, weights: str, per_label: int | None = None) -> None:
        here, held_out = choose_head(scores, chosen_on)
        estimates[Method("head_chosen_here", weights, per_label)] = here
        estimates[Method("head_held_out", weights, per_label)] = held_out

    for weights in head_keys(kernel)["weights"].unique(maintain_order=True):
        choose(by_task.estimate_over_seeds(kernel.filter(weights=weights), of_seed), weights)
    counted = counts.join(predictions.select("seed", "example"), on=["seed", "example"], how="semi")
    for (count,), rows in counted.group_by("demonstrations_per_label", maintain_order=True):
        # A number of demonstrations is included only if all seeds have it.
        if rows["seed"].n_unique() == predictions["seed"].n_unique():
            choose(by_task.estimate_over_seeds(rows, of_count), "max", int(str(count)))
    return estimates
