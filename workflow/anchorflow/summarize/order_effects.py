"""What the order of demonstrations changes, beside what other demonstrations change ([K])."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.random_draws import halves
from anchorflow.schemas.order_effects import ORDER_EFFECTS
from anchorflow.summarize.by_task import (
    SHARE,
    estimate_over_seeds,
    estimates_by_task,
    over_tasks,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
    texts_of,
)
from anchorflow.summarize.heads import by_half, choose_head
from anchorflow.summarize.statistics import (
    Estimate,
    SeedStatistic,
    weighted_mean_where_defined,
)

ARRANGEMENTS = ("order", "draw")
MEASURES = ("accuracy", "spread", "range", "changed")
DIFFERENCES = ("accuracy", "spread", "changed")  # of orders minus draws
OF_HEADS = ("head_changed", "head_agreement")
BOUNDS = dict.fromkeys((*MEASURES, *OF_HEADS), SHARE)
_CELL = ("task", "seed", "example")


def pairs_that_differ(values: Array) -> Array:
    """The share of pairs of columns that differ, over the second axis: [examples, ...].

    Parameters
    ----------
    values : [examples, K, ...]
        Labels as numbers; K is at least 2.
    """
    count = values.shape[1]
    same = sum((values == values[:, [k]]).sum(1) for k in range(count)) - count
    share: Array = 1 - same / (count * (count - 1))
    return share


def order_statistic(rows: pl.DataFrame) -> SeedStatistic:
    """The statistic of ``MEASURES`` of orders, of draws, and of ``DIFFERENCES``, of one seed.

    Parameters
    ----------
    rows : DataFrame
        Table ``orders`` of one task and seed, of examples run with every order and every draw.

    Returns
    -------
    SeedStatistic
        Of weights [R, examples] to [R, 11]; NaN where no example has weight.
    """
    linear = []
    for arrangement in ARRANGEMENTS:
        own = rows.filter(pl.col("arrangement") == arrangement)
        told, label = by_number(own, "prediction"), by_number(own, "label")
        linear.append(np.concatenate([told == label, pairs_that_differ(told)[:, None]], 1))
    means_of = weighted_mean_where_defined(np.concatenate(linear, 1).astype(float))
    count = linear[0].shape[1]

    def statistic(weights: Array) -> Array:
        of_orders, of_draws = (
            _measures(means) for means in np.split(means_of(weights), [count], axis=1)
        )
        places = [MEASURES.index(measure) for measure in DIFFERENCES]
        return np.concatenate([of_orders, of_draws, (of_orders - of_draws)[:, places]], 1)

    return SeedStatistic(statistic, texts_of(rows))


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
    told = np.array(
        [[-1 if label is None else label for label in own] for own in ordered["heads"].to_list()]
    ).reshape(ordered["example"].n_unique(), -1, len(ordered["heads"][0]))  # [examples, K, heads]
    agreement = (told == by_number(rows, "prediction")[..., None]).mean(1)
    return {"head_changed": pairs_that_differ(told), "head_agreement": agreement}


def summarize_order_effects(
    predictions: pl.DataFrame, prompts: pl.DataFrame, chosen_on: float, confidence: float
) -> pl.DataFrame:
    """How much accuracy and predictions differ between orders, and between draws.

    Only examples count that were run with every order and every draw.

    Parameters
    ----------
    predictions, prompts : DataFrame
        Tables ``orders`` and ``prompts`` of the stage, of one model, all tasks and seeds.
    chosen_on : float
        Share of the texts on which the head is chosen; see :func:`choose_head`.

    Returns
    -------
    DataFrame
        Columns of the table ``order_effects``.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(predictions)
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
            "orders.count: of every test text, a prompt with some order or draw exceeds the "
            "model's context; lower kernel.demonstration_tokens."
        )
    skipped = skipped_prompts(whole, "every")
    keys = pl.DataFrame(
        [
            *((arrangement, measure) for arrangement in ARRANGEMENTS for measure in MEASURES),
            *((ARRANGEMENTS[0], f"{measure}_difference") for measure in DIFFERENCES),
        ],
        schema=["arrangement", "measure"],
        orient="row",
    )
    estimates = estimates_by_task(run, tasks, order_statistic, len(keys))
    parts = [summary_rows(estimates, keys, run, confidence, BOUNDS)]
    for arrangement in ARRANGEMENTS:
        for measure in OF_HEADS:
            of_task = partial(
                _best_head, arrangement=arrangement, measure=measure, chosen_on=chosen_on
            )
            named = pl.DataFrame({"arrangement": [arrangement], "measure": [measure]})
            of_heads = over_tasks(run, tasks, of_task, 1)
            parts.append(summary_rows(of_heads, named, run, confidence, BOUNDS))
    rows = pl.concat(parts).join(skipped, on="task", maintain_order="left")
    order = {name: place for place, name in enumerate(ARRANGEMENTS)}
    ordered = rows.sort(
        pl.col("task").replace_strict(_places(rows["task"]), return_dtype=pl.Int32),
        pl.col("arrangement").replace_strict(order, return_dtype=pl.Int32),
        maintain_order=True,
    )
    return summary_table(ordered, predictions, ORDER_EFFECTS)


def _places(names: pl.Series) -> dict[str, int]:
    distinct: Sequence[str] = names.unique(maintain_order=True).to_list()
    return {name: place for place, name in enumerate(distinct)}


def _best_head(rows: pl.DataFrame, arrangement: str, measure: str, chosen_on: float) -> Estimate:
    """One of ``OF_HEADS`` of the best head, on texts that it was not chosen on.

    The same head stands for orders and draws: the one that agrees most with the model in both.
    """
    half_of = halves(rows["example"], 0, chosen_on)

    def of_seed(seed: pl.DataFrame) -> SeedStatistic:
        values = {
            name: head_values(seed.filter(pl.col("arrangement") == name)) for name in ARRANGEMENTS
        }
        agreement = np.mean([values[name]["head_agreement"] for name in ARRANGEMENTS], 0)
        examples = seed["example"].unique().sort()
        scores = by_half(agreement, values[arrangement][measure], examples, half_of)
        return SeedStatistic(weighted_mean_where_defined(scores), texts_of(seed))

    _, held_out = choose_head(estimate_over_seeds(rows, of_seed), chosen_on)
    return held_out.map(lambda of: of[..., :1])
