"""Effects of label words without meaning, or with another label's meaning ([A] appendix)."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from anchorflow.analyses.attention.summarize import auc_of_predictions
from anchorflow.analyses.confusion.summarize import separated_pairs
from anchorflow.analyses.flow.summarize import FLOWS, SCALES, flows_and_shares
from anchorflow.analyses.isolation.summarize import loyalty_measures
from anchorflow.analyses.label_words import LABEL_WORDS_SUMMARY
from anchorflow.arrays import Array
from anchorflow.config.cell_names import OWN, Words, cell_name
from anchorflow.config.table import DIFFERENCE, SHARE
from anchorflow.depth import first_third, last_third
from anchorflow.random_draws import drawn_texts
from anchorflow.schemas.frames import layers_of
from anchorflow.statistics import by_task
from anchorflow.statistics.by_task import AVERAGE, texts_of
from anchorflow.statistics.estimates import SeedStatistic, mean_where_defined, weighted_mean
from anchorflow.statistics.settings import mean_of_draws

_EXAMPLE = ["task", "seed", "example"]

BOUNDS = {
    **dict.fromkeys(("accuracy", "separation", "follows_meaning", "auc", "auc_late"), SHARE),
    **dict.fromkeys(("s_wp_share", "s_pq_share", "s_wp_early", "s_pq_late"), SHARE),
    **dict.fromkeys(("loyalty_label", "loyalty_random"), SHARE),
    **dict.fromkeys(("accuracy_change", "loyalty_drop"), DIFFERENCE),
}


class Measured(NamedTuple):
    """Measures of one kind of label words, before averaging."""

    keys: pl.DataFrame  # measure and layer of each value
    rows: pl.DataFrame  # what was measured, with task, seed and example
    statistic: Callable[[pl.DataFrame], SeedStatistic]  # of the rows of one task and seed
    prompts: pl.DataFrame  # of the tasks that have these measures
    protocol: str  # of the demonstrations


def summarize_label_words(
    predictions: pl.DataFrame,
    attention: pl.DataFrame,
    flow: pl.DataFrame,
    isolation: pl.DataFrame,
    prompts: pl.DataFrame,
    words: Words,
    demonstrations: str,
    variant: str,
    asked: Mapping[str, tuple[Sequence[int], int | None]],
    confidence: float,
) -> pl.DataFrame:
    """Accuracy, AUCROC_l, information flow, and loyalty with the task's own and other label words.

    All kinds of label words are run on the same examples, so differences are paired.

    Cells are named as in ``configuration.cells_with_words``. ``words`` are the label words by task
    and name, from ``configuration.label_word_sets``; none where they are drawn at random. ``asked``
    are the seeds and numbers of texts of ``flow`` and ``isolation``, for counting skipped prompts.
    """
    by_task.require_examples(predictions)
    by_task.require_examples(flow)
    by_task.require_examples(isolation)
    layers = isolation["layers"].max()
    assert isinstance(layers, int)
    original = _answers(_cells_of(predictions, words, OWN))
    parts = []
    for name in dict.fromkeys(name for sets in words.values() for name in sets):
        of_words = _cells_of(prompts, words, name)
        answered = _cells_of(predictions, words, name)
        answers = _answers(answered)
        measured = [_mean_of(answers, "accuracy", of_words), _separation(answered, of_words)]
        if name != OWN:
            change = answers.join(
                original.select(*_EXAMPLE, own="accuracy"), on=_EXAMPLE
            ).with_columns(accuracy_change=pl.col("accuracy") - pl.col("own"))
            measured.append(_mean_of(change, "accuracy_change", of_words))
            measured += _meaning(answers, of_words, words, name)
        attended, predicted = (_cells_of(rows, words, name) for rows in (attention, predictions))
        measured.append(_auc(attended, predicted, layers_of(attention), of_words))
        flows = _cells_of(flow, words, name)
        of_flows, of_isolation = (_asked(of_words, *asked[key]) for key in ("flow", "isolation"))
        measured.append(_flow(flows, layers_of(flow), of_flows, demonstrations))
        isolated = _cells_of(isolation, words, name)
        measured.append(_loyalty(isolated, variant, layers, of_isolation))
        parts += [
            _summarized(estimate, len(words), confidence).with_columns(words=pl.lit(name))
            for estimate in measured
        ]
    order = {task: place for place, task in enumerate([*words, AVERAGE])}
    rows = pl.concat(parts).sort(
        pl.col("task").replace_strict(order, return_dtype=pl.Int32), maintain_order=True
    )
    return by_task.summary_table(rows, predictions, LABEL_WORDS_SUMMARY)


def _asked(prompts: pl.DataFrame, seeds: Sequence[int], examples: int | None) -> pl.DataFrame:
    """The prompts of these seeds and of so many texts of each of them."""
    return drawn_texts(prompts.filter(pl.col("seed").is_in(list(seeds))), examples)


def _cells_of(frame: pl.DataFrame, words: Words, name: str) -> pl.DataFrame:
    """The rows of all tasks with label words of this name, under the tasks' own names."""
    tasks = {cell_name(task, name): task for task, sets in words.items() if name in sets}
    return frame.filter(pl.col("task").is_in(list(tasks))).with_columns(
        pl.col("task").replace_strict(tasks, return_dtype=pl.String)
    )


def _answers(predictions: pl.DataFrame) -> pl.DataFrame:
    right = (pl.col("prediction") == pl.col("label")).cast(pl.Float64)
    return predictions.select(*_EXAMPLE, "label", "prediction", accuracy=right)


def _mean_of(rows: pl.DataFrame, measure: str, prompts: pl.DataFrame) -> Measured:
    """The mean over examples of one column, of prompts with fixed demonstrations."""

    def statistic(seed: pl.DataFrame) -> SeedStatistic:
        return SeedStatistic(
            weighted_mean(seed.sort("example").select(measure).to_numpy()), texts_of(seed)
        )

    return Measured(_keys([measure]), rows, statistic, prompts, "fixed")


def _separation(predictions: pl.DataFrame, prompts: pl.DataFrame) -> Measured:
    """Mean AUC of label pairs, which a preference for one word does not change."""

    def statistic(seed: pl.DataFrame) -> SeedStatistic:
        pairs = separated_pairs(seed)
        return SeedStatistic(
            lambda weights: mean_where_defined(pairs(weights), 1)[:, None], texts_of(seed)
        )

    return Measured(_keys(["separation"]), predictions, statistic, prompts, "fixed")


def _keys(measures: Sequence[str]) -> pl.DataFrame:
    return pl.DataFrame({"measure": measures}).with_columns(layer=pl.lit(None, pl.Int32))


def named_labels(words: Sequence[str], labels: Sequence[str]) -> list[int] | None:
    """The label that each word has among the task's own words; None if the sets differ."""
    meant = [word.strip() for word in labels]
    given = [word.strip() for word in words]
    return [meant.index(word) for word in given] if set(given) == set(meant) else None


def _meaning(
    answers: pl.DataFrame, prompts: pl.DataFrame, words: Words, name: str
) -> list[Measured]:
    """Accuracy of predicted words read by their meaning; empty unless words are permuted."""
    named = {
        task: named_labels(sets[name], sets[OWN]) for task, sets in words.items() if name in sets
    }
    rows = [
        answers.filter(task=task).with_columns(
            follows_meaning=(
                pl.col("prediction").replace_strict(dict(enumerate(labels))) == pl.col("label")
            ).cast(pl.Float64)
        )
        for task, labels in named.items()
        if labels is not None
    ]
    if not rows:
        return []
    permuted = [task for task, labels in named.items() if labels is not None]
    of_tasks = prompts.filter(pl.col("task").is_in(permuted))
    return [_mean_of(pl.concat(rows), "follows_meaning", of_tasks)]


def _auc(
    attention: pl.DataFrame, predictions: pl.DataFrame, layers: Sequence[int], prompts: pl.DataFrame
) -> Measured:
    """AUCROC_l by layer, and its mean over the last third of the layers ([A] §2.3)."""
    keys = pl.DataFrame(
        [*(("auc", layer) for layer in layers), ("auc_late", None)],
        schema={"measure": pl.String, "layer": pl.Int32},
        orient="row",
    )

    def statistic(seed: pl.DataFrame) -> SeedStatistic:
        predicted = predictions.join(seed.select("task", "seed").unique(), on=["task", "seed"])
        of_layers = auc_of_predictions(seed, predicted)

        def values(weights: Array) -> Array:
            auc = of_layers(weights)
            late = mean_where_defined(auc[:, last_third(len(layers))], -1)
            return np.column_stack([auc, late])

        return SeedStatistic(values, texts_of(predicted))

    return Measured(keys, attention, statistic, prompts, "fixed")


def _flow(
    saliency: pl.DataFrame, layers: Sequence[int], prompts: pl.DataFrame, demonstrations: str
) -> Measured:
    """Shares of S_wp and S_pq by layer, and the mean of S_wp early and of S_pq late."""
    by_layer = [(share, layer) for share in ("s_wp_share", "s_pq_share") for layer in layers]
    keys = pl.DataFrame(
        [*by_layer, ("s_wp_early", None), ("s_pq_late", None)],
        schema={"measure": pl.String, "layer": pl.Int32},
        orient="row",
    )

    def statistic(seed: pl.DataFrame) -> SeedStatistic:
        shares = flows_and_shares(seed, len(layers))[..., SCALES.index("proportion")]
        to_words, to_target = (shares[..., FLOWS.index(flow)] for flow in ("s_wp", "s_pq"))
        early = to_words[:, first_third(len(layers))].mean(1)
        late = to_target[:, last_third(len(layers))].mean(1)
        values = np.column_stack([to_words, to_target, early, late])
        return SeedStatistic(weighted_mean(values), texts_of(seed))

    return Measured(keys, saliency, statistic, prompts, demonstrations)


def _loyalty(isolation: pl.DataFrame, variant: str, layers: int, prompts: pl.DataFrame) -> Measured:
    """Label loyalty with label words, or random tokens, isolated in the first ``layers`` layers."""
    first = (pl.col("side") == "first") & (pl.col("layers") == layers)
    isolated = first & (pl.col("variant") == variant)
    rows = isolation.filter(isolated | (pl.col("positions") == "none"))

    def statistic(seed: pl.DataFrame) -> SeedStatistic:
        measured = loyalty_measures(seed)
        label, other = (
            mean_of_draws(measured.filter(positions=positions), ["label_loyalty"])
            .select("label_loyalty")
            .to_numpy()
            for positions in ("label", "random")
        )
        values = np.concatenate([label, other, other - label], 1)
        return SeedStatistic(weighted_mean(values), texts_of(seed))

    keys = _keys(["loyalty_label", "loyalty_random", "loyalty_drop"])
    return Measured(keys, rows, statistic, prompts, "fixed")


def _summarized(measured: Measured, tasks: int, confidence: float) -> pl.DataFrame:
    """Summary rows per task and averaged over all ``tasks``, with counts of skipped prompts."""
    here = measured.prompts["task"].unique(maintain_order=True).to_list()
    values = len(measured.keys)
    estimates = by_task.estimates_by_task(measured.rows, here, measured.statistic, values)
    # An average over fewer tasks would not be comparable with that of the tasks' own words.
    if len(here) != tasks:
        estimates[AVERAGE] = by_task.undefined(values)
    skipped = by_task.skipped_prompts(measured.prompts, measured.protocol, measured.rows)
    rows = by_task.summary_rows(estimates, measured.keys, measured.rows, confidence, BOUNDS)
    return rows.join(skipped, on="task", maintain_order="left")
