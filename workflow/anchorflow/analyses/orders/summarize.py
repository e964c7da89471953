"""Effects of the order of demonstrations compared with effects of their choice ([K])."""

from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.kernel.summarize import by_half, choose_head
from anchorflow.analyses.orders import ORDERS_SUMMARY as SUMMARY
from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.random_draws import halves
from anchorflow.statistics import by_task
from anchorflow.statistics.estimates import Estimate, SeedStatistic, weighted_mean_where_defined

ARRANGEMENTS = ("order", "draw")
MEASURES = ("accuracy", "spread", "range", "changed")
DIFFERENCES = ("accuracy", "spread", "changed")  # of orders minus draws
OF_HEADS = ("head_changed", "head_agreement")
_CELL = ("task", "seed", "example")


def pairs_that_differ(values: Array) -> Array:
    """The share of pairs along the second axis whose values differ, [examples, ...].

    Values are labels as numbers, [examples, K, ...], and K is at least 2.
    """
    count = values.shape[1]
    same = sum((values == values[:, [k]]).sum(1) for k in range(count)) - count
    share: Array = 1 - same / (count * (count - 1))
    return share


def order_statistic(rows: pl.DataFrame) -> SeedStatistic:
    """The statistic of one seed: ``MEASURES`` of orders, ``MEASURES`` of draws, ``DIFFERENCES``.

    The examples of ``rows`` were run with every order and every draw. Weights [R, examples] give
    [R, 11]; NaN where no example has weight.
    """
    linear = []
    for arrangement in ARRANGEMENTS:
        arranged = rows.filter(pl.col("arrangement") == arrangement)
        predicted, label = by_number(arranged, "prediction"), by_number(arranged, "label")
        differ = pairs_that_differ(predicted)[:, None]
        linear.append(np.concatenate([predicted == label, differ], 1))
    means_of = weighted_mean_where_defined(np.concatenate(linear, 1).astype(float))
    count = linear[0].shape[1]

    def statistic(weights: Array) -> Array:
        of_orders, of_draws = (
            _measures(means) for means in np.split(means_of(weights), [count], axis=1)
        )
        places = [MEASURES.index(measure) for measure in DIFFERENCES]
        return np.concatenate([of_orders, of_draws, (of_orders - of_draws)[:, places]], 1)

    return SeedStatistic(statistic, by_task.texts_of(rows))


def _measures(means: Array) -> Array:
    """``MEASURES`` from [R, K + 1]: the accuracies of K arrangements, and ``changed``."""
    accuracies, changed = means[:, :-1], means[:, -1]
    spread = accuracies.std(1, ddof=1)
    return np.stack([accuracies.mean(1), spread, np.ptp(accuracies, 1), changed], 1)


def by_number(rows: pl.DataFrame, column: str) -> Array:
    """A column of one arrangement and seed as [examples, K], in order of example and number."""
    ordered = rows.sort("example", "number")
    values: Array = ordered[column].to_numpy().reshape(ordered["example"].n_unique(), -1)
    return values


def head_values(rows: pl.DataFrame) -> dict[str, Array]:
    """``OF_HEADS`` of every head in one arrangement and seed, [examples, heads]."""
    ordered = rows.sort("example", "number")
    predicted = np.array(
        [
            [-1 if label is None else label for label in of_example]
            for of_example in ordered["heads"].to_list()
        ]
    ).reshape(ordered["example"].n_unique(), -1, len(ordered["heads"][0]))  # [examples, K, heads]
    agreement = (predicted == by_number(rows, "prediction")[..., None]).mean(1)
    return {"head_changed": pairs_that_differ(predicted), "head_agreement": agreement}


def summarize_orders(
    predictions: pl.DataFrame, prompts: pl.DataFrame, chosen_on: float, confidence: float
) -> pl.DataFrame:
    """How much accuracy and predictions differ between orders, and between draws.

    Only examples that were run with every order and every draw count.

    ``chosen_on`` is the share of the texts on which the head is chosen; see :func:`choose_head`.
    """
    by_task.require_examples(predictions)
    tasks = prompts["task"].unique(maintain_order=True).to_list()
    whole = (
        prompts.group_by(_CELL, maintain_order=True)
        .agg(pl.col("skipped").drop_nulls().first())
        .with_columns(demonstrations=pl.lit("every"))
    )
    run = predictions.join(
        whole.filter(pl.col("skipped").is_null()), on=_CELL, how="semi", maintain_order="left"
    )
    if run.is_empty():
        raise InputError(
            "orders.count: for every test text, the prompt with some order or draw exceeds the "
            "model's context; lower kernel.demonstration_tokens."
        )
    skipped = by_task.skipped_prompts(whole, "every")
    keys = pl.DataFrame(
        [
            *((arrangement, measure) for arrangement in ARRANGEMENTS for measure in MEASURES),
            *((ARRANGEMENTS[0], f"{measure}_difference") for measure in DIFFERENCES),
        ],
        schema=["arrangement", "measure"],
        orient="row",
    )
    estimates = by_task.estimates_by_task(run, tasks, order_statistic, len(keys))
    parts = [by_task.summary_rows(estimates, keys, run, confidence, SUMMARY.bounds)]
    for arrangement in ARRANGEMENTS:
        for measure in OF_HEADS:
            of_task = partial(
                _best_head, arrangement=arrangement, measure=measure, chosen_on=chosen_on
            )
            named = pl.DataFrame({"arrangement": [arrangement], "measure": [measure]})
            of_heads = by_task.over_tasks(run, tasks, of_task, 1)
            parts.append(by_task.summary_rows(of_heads, named, run, confidence, SUMMARY.bounds))
    rows = pl.concat(parts).join(skipped, on="task", maintain_order="left")
    in_order = (
        pl.col(name).replace_strict({value: place for place, value in enumerate(values)})
        for name, values in (("task", estimates), ("arrangement", ARRANGEMENTS))
    )
    return by_task.summary_table(rows.sort(*in_order, maintain_order=True), predictions, SUMMARY)


def _best_head(rows: pl.DataFrame, arrangement: str, measure: str, chosen_on: float) -> Estimate:
    """One of ``OF_HEADS`` of the best head, on texts that it was not chosen on.

    Orders and draws share one head, that of highest agreement with the model over both, so that
    they do not differ by the choice of the head.
    """
    # One split for all seeds, since the head is chosen over all of them.
    half_of = halves(rows["example"], 0, chosen_on)

    def of_seed(seed: pl.DataFrame) -> SeedStatistic:
        values = {
            name: head_values(seed.filter(pl.col("arrangement") == name)) for name in ARRANGEMENTS
        }
        agreement = np.mean([values[name]["head_agreement"] for name in ARRANGEMENTS], 0)
        examples = seed["example"].unique().sort()
        scores = by_half(agreement, values[arrangement][measure], examples, half_of)
        return SeedStatistic(weighted_mean_where_defined(scores), by_task.texts_of(seed))

    _, held_out = choose_head(by_task.estimate_over_seeds(rows, of_seed), chosen_on)
    return held_out.map(lambda of: of[..., :1])
