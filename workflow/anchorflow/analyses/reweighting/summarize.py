"""Accuracy of re-weighting and its baselines, and their gains over vanilla ([A] Table 1)."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.accuracy.calibration import gaps, preference, with_calibration
from anchorflow.analyses.accuracy.summarize import accuracy_measures
from anchorflow.analyses.reweighting import REWEIGHTING_SUMMARY as SUMMARY
from anchorflow.arrays import Array
from anchorflow.schemas.measures import CALIBRATION
from anchorflow.statistics import by_task, change
from anchorflow.statistics.by_task import AVERAGE, PUBLISHED
from anchorflow.statistics.estimates import Estimate, SeedStatistic, weighted_mean_where_defined

OfSeed = Callable[[pl.DataFrame], SeedStatistic]

FURTHER = "reweighted_"  # prefix of fits with one of reweighting.further_rates
_VOCABULARY = (*change.GAINS[1:], *change.VOCABULARY)
_BIASES = {"contextual_bias": "calibrated", "domain_bias": "domain_calibrated"}
MEASURES = (
    *("accuracy", "macro_f1", "accuracy_gain", "macro_f1_gain", *_VOCABULARY),
    *(*_BIASES, *(measure.name for measure in CALIBRATION)),
)

# Accuracy in percent; Wang et al. 2023, Table 1.
_TABLE_1 = {
    "gpt2-xl": {
        "vanilla": {"sst2": 61.28, "trec": 57.56, "agnews": 73.32, "emoc": 15.44, AVERAGE: 51.90},
        "many": {"sst2": 64.75, "trec": 60.40, "agnews": 52.52, "emoc": 9.80, AVERAGE: 46.87},
        "reweighted": {
            "sst2": 90.07,
            "trec": 60.92,
            "agnews": 81.94,
            "emoc": 41.64,
            AVERAGE: 68.64,
        },
    }
}


def table_1(model: str, tasks: Sequence[str]) -> pl.DataFrame:
    """[A] Table 1, for a model and tasks named as in ``config/paper.yaml``.

    The values are shares; the average has rows only if the tasks are the paper's four.
    """
    methods = _TABLE_1.get(model, {})
    rows = []
    for method, shares in methods.items():
        complete = set(tasks) == set(shares) - {AVERAGE}
        for task in [*tasks, *([AVERAGE] if complete else [])]:
            if task in shares:
                rows.append((task, method, "accuracy", shares[task] / 100))
                if method != "vanilla":
                    gain = shares[task] - methods["vanilla"][task]
                    rows.append((task, method, "accuracy_gain", gain / 100))
    return pl.DataFrame(rows, schema=PUBLISHED, orient="row")


def performance_measures(
    rows: pl.DataFrame, method: str, inputs: pl.DataFrame | None = None
) -> SeedStatistic:
    """The statistic of one method and seed: all ``MEASURES`` but the last, and :func:`gaps`.

    All cover the examples that the method was run on; a prompt with many demonstrations may be too
    long where vanilla's is not.

    Weights [R, examples] give [R, measures], NaN where no example has weight or, for those of the
    whole vocabulary, for baselines. The second group of examples is vanilla's. ``inputs`` are the
    answers to the inputs of baselines; the preference that these show depends on no test text.
    """
    vanilla = rows.filter(pl.col("method") == "vanilla").sort("example")
    chosen = rows.filter(pl.col("method") == method).sort("example")
    run = vanilla["example"].is_in(chosen["example"].implode()).to_numpy()
    labels, classes = chosen["label"].to_numpy(), len(rows["probabilities"][0])
    of_method = accuracy_measures(labels, chosen["prediction"].to_numpy(), classes)
    of_vanilla = accuracy_measures(labels, vanilla["prediction"].to_numpy()[run], classes)
    before = vanilla.select("example", before="prediction", was_in_labels="in_labels")
    in_vocabulary = weighted_mean_where_defined(
        chosen.join(before, on="example", maintain_order="left")
        .with_columns(**change.accuracy_changes(change.GAINS, "before", "was_in_labels"))
        .select(_VOCABULARY)
        .cast(pl.Float64)
        .fill_null(np.nan)
        .to_numpy()
    )

    of_bins = gaps(chosen)
    biases = [_bias(inputs, rows, method, baseline) for baseline in _BIASES.values()]

    def statistic(weights: Array) -> Array:
        some = weights[:, run]
        measures = np.full((len(weights), 2), np.nan)
        gains = measures.copy()
        weighted = some.sum(1) > 0
        if weighted.any():
            measures[weighted] = of_method(some[weighted])[:, :2]
            gains[weighted] = measures[weighted] - of_vanilla(some[weighted])[:, :2]
        preferred = np.broadcast_to(biases, (len(weights), len(biases)))
        parts = [measures, gains, in_vocabulary(some), preferred, of_bins(some)]
        return np.concatenate(parts, 1)

    return SeedStatistic(statistic, by_task.texts_of(vanilla))


def _bias(inputs: pl.DataFrame | None, rows: pl.DataFrame, method: str, baseline: str) -> float:
    """How far a method prefers labels whatever the text; NaN if it did not answer such inputs."""
    if inputs is None or inputs.is_empty():
        return np.nan
    task, seed = rows.select("task", "seed").row(0)
    answered = inputs.filter(task=task, seed=seed, method=method, baseline=baseline)
    if answered.is_empty():
        return np.nan
    return preference(np.array(answered["probabilities"].to_list()))


def summarize_reweighting(
    predictions: pl.DataFrame,
    prompts: pl.DataFrame,
    auxiliary: pl.DataFrame,
    confidence: float,
    baselines: Sequence[str],
    inputs: pl.DataFrame | None = None,
    beta: pl.DataFrame | None = None,
    routing: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Accuracy and macro-F1 of every method, their paired differences from vanilla, calibration.

    All methods are run on the same examples, so differences are paired. Baselines change label
    probabilities alone, so they have no measures of the whole vocabulary.

    ``auxiliary`` are the prompts added for re-weighting, and ``inputs`` the answers to the inputs
    of baselines, from which the bias of a prompt towards some labels follows. ``beta`` and
    ``routing`` tell how many parameters are fitted. Rows follow the order of ``baselines``.
    """
    by_task.require_examples(predictions)
    keys = pl.DataFrame({"measure": MEASURES})
    both = pl.concat([prompts, auxiliary])
    tasks = both["task"].unique(maintain_order=True).to_list()
    published = table_1(predictions["model"][0], tasks)
    methods = ["vanilla", "many", *baselines, "reweighted", *_further_rates(predictions)]
    methods += ["routed"] if "routed" in predictions["method"] else []
    answered = {method: _tasks_of(predictions, method) for method in methods}
    parts = []
    for method in methods:
        of_seed = partial(performance_measures, method=method, inputs=inputs)

        def of_task(rows: pl.DataFrame, of_seed: OfSeed = of_seed) -> Estimate:
            return by_task.estimate_over_seeds(rows, of_seed).map(with_calibration)

        estimates = by_task.over_tasks(predictions, tasks, of_task, len(MEASURES))
        # An average over fewer tasks would not be comparable with vanilla's.
        if answered[method] != answered["vanilla"]:
            estimates[AVERAGE] = by_task.undefined(len(MEASURES))
        run = predictions.filter(pl.col("method") == method)
        skipped = by_task.skipped_prompts(both, "many" if method == "many" else "fixed", run)
        parts.append(
            by_task.summary_rows(estimates, keys, run, confidence, SUMMARY.bounds)
            .join(skipped, on="task", maintain_order="left")
            .with_columns(pl.lit(method).alias("method"))
        )
    parts += [_parameters(part, beta, routing) for part in parts]
    rows = pl.concat(parts).join(
        published, on=["task", "method", "measure"], how="left", maintain_order="left"
    )
    to_itself = (pl.col("method") == "vanilla") & pl.col("measure").str.contains("_gain")
    unknown = pl.col("method").is_in(baselines) & pl.col("measure").is_in(_VOCABULARY)
    unknown |= pl.col("measure").is_in([*_BIASES]) & pl.col("mean").is_null()
    return by_task.summary_table(rows.filter(~to_itself & ~unknown), predictions, SUMMARY)


def _parameters(
    rows: pl.DataFrame, beta: pl.DataFrame | None, routing: pl.DataFrame | None
) -> pl.DataFrame:
    """The number of fitted parameters as rows of a measure, which has no interval."""
    fitted = routing if rows["method"][0] == "routed" else beta
    plain = not rows["method"][0].startswith(("reweighted", "routed"))
    if fitted is None or plain:
        return rows.clear()
    counts = fitted.group_by("task", "seed").len().group_by("task").agg(pl.col("len").mean())
    average = counts.select(pl.lit(AVERAGE).alias("task"), pl.col("len").mean())
    nothing = pl.lit(None, pl.Float64)
    return (
        rows.filter(measure="accuracy")
        .join(pl.concat([counts, average]), on="task", maintain_order="left")
        .with_columns(measure=pl.lit("parameters"), mean=pl.col("len"), low=nothing, high=nothing)
        .drop("len")
    )


def _further_rates(predictions: pl.DataFrame) -> list[str]:
    """The methods ``reweighted_0.1`` and so on, from the largest learning rate to the smallest."""
    names = predictions["method"].unique()
    rates = {float(name.removeprefix(FURTHER)): name for name in names if name.startswith(FURTHER)}
    return [rates[rate] for rate in sorted(rates, reverse=True)]


def _tasks_of(predictions: pl.DataFrame, method: str) -> set[str]:
    return set(predictions.filter(pl.col("method") == method)["task"])
