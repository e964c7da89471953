"""Applications of anchors: re-weighting, compression, and diagnosis of confusion ([A] §3)."""

from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from anchorflow.analyses.compression.summarize import retention_measures
from anchorflow.analyses.confusion.summarize import confusion_measures
from anchorflow.arrays import Array
from anchorflow.claims.claim import (
    DISCRIMINATING,
    PAPER,
    QUARTILES,
    UNTRAINED,
    Claim,
    Control,
    Curve,
    Depth,
    NotTested,
    Run,
    Sampled,
    Timed,
)
from anchorflow.claims.effects import (
    UNCHANGED,
    accuracy_over,
    difference_by_seed,
    mean_of_layers,
    rows_with,
)
from anchorflow.depth import last_third
from anchorflow.statistics.by_task import texts_of
from anchorflow.statistics.estimates import SeedStatistic, Statistic, mean_where_defined

READS = (
    "reweighting",
    "compression",
    "timing",
    "confusion",
    "predictions",
)


DRAWS = 20  # random draws, of which [A] takes the best


class _Other(NamedTuple):
    described: str
    method: str
    form: str
    drawn: str = ""  # the method whose draws it chooses from
    chosen: str = ""


_OTHERS = {
    "text": _Other("the anchors as text", "text_anchor", PAPER),
    "random": _Other("random tokens in place of label words", "hidden_random", PAPER),
    "random_oracle": _Other(
        "the best of 20 random draws",
        "hidden_random_oracle",
        PAPER,
        "hidden_random",
        ", chosen on the same texts",
    ),
    "random_top": _Other(
        "the best of several random draws",
        "hidden_random_top",
        DISCRIMINATING,
        "hidden_random",
        ", chosen on other texts",
    ),
    "format": _Other("template tokens alone", "format_only", DISCRIMINATING),
    "label": _Other("label words alone", "label_only", DISCRIMINATING),
}

# By measure of retention: what is retained, the name of the measure, and its unit.
_RETAINED = {
    "label_loyalty": ("predicted labels", "label loyalty", UNCHANGED),
    "word_loyalty": ("most likely words", "word loyalty", "Jaccard similarity"),
    "accuracy": ("accuracy", "accuracy", "accuracy"),
}


def anchors_over(run: Run, other: str, measure: str) -> Sampled:
    """A measure of retention with the anchors minus that with another method.

    Raises
    ------
    NotTested
        If one of the methods was not run, there is only one text to choose a draw by, or there are
        fewer draws than in the paper.
    """
    compared = _OTHERS[other]
    rows = run.rows("compression")
    for method in ("hidden_anchor", compared.drawn or compared.method):
        if rows_with(rows, {"method": method, "share": None}).is_empty():
            raise NotTested(f"compression.methods lacks {method}")
    draws = rows.filter(pl.col("method") == "hidden_random")["draw"].n_unique()
    if other == "random_oracle" and draws < DRAWS:
        raise NotTested(f"compression.draws is {draws}, and the paper's is {DRAWS}")
    if other == "random_oracle":
        rows = rows.filter((pl.col("method") != "hidden_random") | (pl.col("draw") < DRAWS))
    measured = retention_measures(rows)
    anchors, others = ({"method": way, "share": None} for way in ("hidden_anchor", compared.method))
    if rows_with(measured, others).is_empty():
        raise NotTested("a single test text leaves no other to choose a draw by")
    return difference_by_seed(measured, [anchors], [others], measure)


def time_saved(run: Run, over: str) -> Timed:
    """Ratio of the time per query of another way to that of the anchors, minus 1.

    The bounds are the ratios of the closest and of the farthest quartiles, minus 1.

    Raises
    ------
    NotTested
        If one of the two was not timed.
    """
    timing = run.rows("timing")
    ways = {row["way"]: row for row in timing.iter_rows(named=True)}
    if lacking := {over, "hidden_anchor"} - set(ways):
        raise NotTested(f"{' and '.join(sorted(lacking))} was not timed")
    other, anchors = ways[over], ways["hidden_anchor"]
    return Timed(
        other["milliseconds"] / anchors["milliseconds"] - 1,
        other["low"] / anchors["high"] - 1,
        other["high"] / anchors["low"] - 1,
        timing.filter(pl.col("way") == "hidden_anchor")["runs"][0],
    )


def predicted_confusion(run: Run, rotated: bool = False) -> Sampled:
    """Rank correlation of key distance with pairwise AUC, mean of the last third of the layers.

    ``rotated`` assigns each label's distances to another label instead: the mean over all rotations
    of the labels by one place or more.

    Raises
    ------
    NotTested
        If there are fewer than three labels.
    """
    predictions = run.by_seed("predictions")
    first = next(iter(predictions.values()))
    classes = len(first["probabilities"][0])
    if classes < 3:
        raise NotTested("a rank correlation needs three labels or more")
    confusion = {
        seed: rows.filter(pl.col("heads") == "concatenated")
        for seed, rows in run.by_seed("confusion").items()
    }
    layers = run.rows("confusion")["layer"].n_unique()
    seeds = {}
    for seed, predicted in predictions.items():
        shifts = range(1, classes) if rotated else (0,)
        measures = [
            confusion_measures(predicted, shifted_labels(confusion[seed], shift, classes))
            for shift in shifts
        ]

        def statistic(weights: Array, measures: list[Statistic] = measures) -> Array:
            every = np.stack([measure(weights)[:, -layers:] for measure in measures])
            return mean_of_layers(mean_where_defined(every, 0), last_third(layers))

        seeds[seed] = SeedStatistic(statistic, texts_of(predicted))
    return Sampled(seeds)


def shifted_labels(confusion: pl.DataFrame, shift: int, classes: int) -> pl.DataFrame:
    """The table ``confusion`` with every label replaced by the one ``shift`` places on."""
    first, second = ((pl.col(name) + shift) % classes for name in ("label", "other"))
    return confusion.with_columns(
        label=pl.min_horizontal(first, second), other=pl.max_horizontal(first, second)
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "reweighting_over_vanilla",
        "Re-weighting attention to the label words improves accuracy",
        "[A] §3.1, Table 1",
        "accuracy with re-weighting minus that of plain in-context learning, paired",
        "accuracy",
        partial(
            accuracy_over, table="reweighting", column="method", more="reweighted", less="vanilla"
        ),
        Control("plain in-context learning, already subtracted in the effect"),
        place=1,
    ),
    Claim(
        "reweighting_over_many",
        "Re-weighting improves accuracy more than the same texts as further demonstrations",
        "[A] §3.1, Table 1",
        "accuracy with re-weighting minus that with more demonstrations, paired",
        "accuracy",
        partial(
            accuracy_over, table="reweighting", column="method", more="reweighted", less="many"
        ),
        Control("the same texts as further demonstrations, already subtracted in the effect"),
        place=2,
    ),
    # Three measures of retention, with six methods each. The paper compares with the anchors as
    # text, random tokens, and the best of twenty random draws, chosen on the texts that it is
    # scored on. The stricter comparisons are the best draw chosen on other texts, and each of the
    # two kinds of anchors alone.
    *(
        Claim(
            f"anchors_over_{name}_{measure}",
            f"Anchors retain {what} better than {other.described}",
            "[A] §3.2, Table 2",
            f"{called} with hidden_anchor minus that with {other.method}{other.chosen}",
            unit,
            partial(anchors_over, other=name, measure=measure),
            Control(f"{other.described}, already subtracted in the effect"),
            UNTRAINED,
            other.form,
            place=place,
        )
        for place, (name, other) in enumerate(_OTHERS.items())
        for measure, (what, called, unit) in _RETAINED.items()
    ),
    Claim(
        "compression_is_faster",
        "Queries are answered faster with a cache of the anchors than with full prompts",
        "[A] §3.2, Table 3",
        "ratio of the median time per query with full prompts to that with hidden_anchor, minus 1",
        "time with hidden_anchor",
        partial(time_saved, over="full_prompt"),
        Control("none: a cache of all demonstrations saves most of this time too"),
        rule=QUARTILES,
        bounded=False,
    ),
    Claim(
        "anchors_faster_than_full_cache",
        "Queries are answered faster with a cache of the anchors than with a full cache",
        "[A] §3.2, Table 3",
        "ratio of the median time per query with a cache of all demonstrations to that with "
        "hidden_anchor, minus 1",
        "time with hidden_anchor",
        partial(time_saved, over="full"),
        Control("the cache of all demonstrations, already compared in the effect"),
        form=DISCRIMINATING,
        rule=QUARTILES,
        bounded=False,
        place=1,
    ),
    Claim(
        "diagnosis_predicts_confusion",
        "Labels whose keys lie farther apart are confused less",
        "[A] §3.3, Fig. 6",
        "rank correlation of key distance with pairwise AUC, last third of the layers",
        "Spearman's ρ",
        predicted_confusion,
        Control(
            "each label's distances assigned to another label",
            lambda run: predicted_confusion(run, rotated=True),
        ),
        undefined="in no layer are there three pairs of labels whose AUC and distance vary",
        over_depth=Depth(
            "rank correlation of key distance with AUC",
            (
                Curve(
                    "rank correlation",
                    "confusion",
                    {"measure": "correlation", "heads": "concatenated"},
                ),
            ),
        ),
    ),
)
