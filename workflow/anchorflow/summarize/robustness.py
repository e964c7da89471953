"""What perturbed test texts cost in accuracy ([K] Table 1)."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from anchorflow.schemas.robustness import ROBUSTNESS
from anchorflow.summarize.by_task import (
    AVERAGE,
    SHARE,
    estimates_by_task,
    require_examples,
    skipped_prompts,
    summary_rows,
    summary_table,
    texts_of,
    undefined,
)
from anchorflow.summarize.statistics import (
    Estimate,
    SeedStatistic,
    weighted_mean_where_defined,
)

UNTOUCHED = "untouched"
PERTURBATIONS = (UNTOUCHED, "typos", "word_order", "case", "rare_words")
ALONE = ("accuracy", "changed_words")  # over the examples run with the perturbed text
PAIRED = ("agreement", "accuracy_change")  # over those also run with the untouched one
MEASURES = (*ALONE, *PAIRED)
BOUNDS = dict.fromkeys(("accuracy", "changed_words", "agreement"), SHARE)
_CELL = ("task", "seed", "example")


def robustness_measures(rows: pl.DataFrame, perturbation: str) -> SeedStatistic:
    """The statistic of ``MEASURES`` of one perturbation and seed.

    Parameters
    ----------
    rows : DataFrame
        Table ``perturbations`` of one task and seed, with ``changed_words``.

    Returns
    -------
    SeedStatistic
        Of weights [R, examples] to [R, 4], NaN where no example has weight; and the examples run
        with any perturbation.
    """
    scored = rows.with_columns(accuracy=(pl.col("prediction") == pl.col("label")).cast(pl.Float64))
    untouched = scored.filter(pl.col("perturbation") == UNTOUCHED).select(
        "example", own="accuracy", answer="prediction"
    )
    values = (
        scored.select(pl.col("example").unique())
        .join(scored.filter(pl.col("perturbation") == perturbation), on="example", how="left")
        .join(untouched, on="example", how="left")
        .sort("example")
        .with_columns(
            agreement=(pl.col("prediction") == pl.col("answer")).cast(pl.Float64),
            accuracy_change=pl.col("accuracy") - pl.col("own"),
        )
        .select(MEASURES)
        .fill_null(np.nan)
        .to_numpy()
    )  # [examples, 4]
    return SeedStatistic(weighted_mean_where_defined(values), texts_of(rows))


def summarize_robustness(
    predictions: pl.DataFrame,
    perturbed: pl.DataFrame,
    prompts: pl.DataFrame,
    texts: pl.DataFrame,
    confidence: float,
) -> pl.DataFrame:
    """Accuracy by perturbation, and its paired difference from untouched texts.

    Parameters
    ----------
    predictions, perturbed, prompts, texts : DataFrame
        Tables ``perturbations``, ``prompts`` of perturbed texts, ``prompts`` (of which those with
        fixed demonstrations have the untouched texts), and ``perturbed_texts``, of one model, all
        tasks and seeds.

    Returns
    -------
    DataFrame
        Columns of the table ``robustness``. For paired measures, ``examples`` counts pairs, and
        ``skipped`` counts pairs of which either prompt was not run.

    Raises
    ------
    InputError
        If there are no predictions.
    """
    require_examples(predictions)
    fixed = prompts.filter(pl.col("demonstrations") == "fixed")
    protocols = pl.concat([fixed.with_columns(demonstrations=pl.lit(UNTOUCHED)), perturbed])
    tasks = protocols["task"].unique(maintain_order=True).to_list()
    share = pl.col("changed") / pl.col("words")
    changed = texts.select(*_CELL, "perturbation", changed_words=share)
    rows = predictions.join(changed, on=[*_CELL, "perturbation"], how="left", maintain_order="left")
    untouched = rows.filter(pl.col("perturbation") == UNTOUCHED)
    parts = []
    for name in [each for each in PERTURBATIONS if each in protocols["demonstrations"]]:
        run = rows.filter(pl.col("perturbation") == name)
        of_seed = partial(robustness_measures, perturbation=name)
        estimates = estimates_by_task(rows, tasks, of_seed, len(MEASURES))
        # An average over fewer tasks would not be comparable with that of untouched texts.
        if set(run["task"]) != set(untouched["task"]):
            estimates[AVERAGE] = undefined(len(MEASURES))
        alone = ALONE[:1] if name == UNTOUCHED else ALONE
        parts.append(
            _rows(estimates, alone, run, confidence)
            .join(skipped_prompts(protocols, name, run), on="task", maintain_order="left")
            .with_columns(perturbation=pl.lit(name))
        )
        if name != UNTOUCHED:
            pairs = run.join(untouched, on=_CELL, how="semi")
            parts.append(
                _rows(estimates, PAIRED, pairs, confidence)
                .join(_skipped_pairs(protocols, name, pairs), on="task", maintain_order="left")
                .with_columns(perturbation=pl.lit(name))
            )
    return summary_table(pl.concat(parts), predictions, ROBUSTNESS)


def _rows(
    estimates: Mapping[str, Estimate],
    measures: Sequence[str],
    source: pl.DataFrame,
    confidence: float,
) -> pl.DataFrame:
    """Summary rows of some of the measures, which cover the examples of ``source``."""
    places = [MEASURES.index(measure) for measure in measures]
    some = {task: each.map(lambda values: values[..., places]) for task, each in estimates.items()}
    return summary_rows(some, pl.DataFrame({"measure": measures}), source, confidence, BOUNDS)


def _skipped_pairs(protocols: pl.DataFrame, name: str, answered: pl.DataFrame) -> pl.DataFrame:
    """Number of examples skipped with the untouched text or with the perturbed one."""
    pairs = (
        protocols.filter(pl.col("demonstrations").is_in([UNTOUCHED, name]))
        .group_by(_CELL, maintain_order=True)
        .agg(pl.col("skipped").drop_nulls().first())
    )
    return skipped_prompts(pairs.with_columns(demonstrations=pl.lit("pair")), "pair", answered)
