"""Changes of predictions under an intervention or another prompt, text by text.

Loyalty is agreement with the unmodified run ([A] §2.2). Accuracy changes in part because the model
no longer does the task: label probabilities compare label words with one another, so a prediction
may be right although another token is likelier than all of them.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy.special import rel_entr

from anchorflow.arrays import Array, divided
from anchorflow.schemas.measures import ACCURACY_CHANGES, ACCURACY_GAINS, IN_VOCABULARY

EXAMPLE_KEYS = ["seed", "example"]

CHANGES, GAINS, VOCABULARY = (
    tuple(measure.name for measure in measures)
    for measures in (ACCURACY_CHANGES, ACCURACY_GAINS, IN_VOCABULARY)
)
ACCURACY = (pl.col("prediction") == pl.col("label")).cast(pl.Float64)
_KNOWN = (*ACCURACY_CHANGES, *ACCURACY_GAINS, *IN_VOCABULARY)
DETAILS = tuple(measure.name for measure in _KNOWN if measure.in_full)

RETAINED = "retained"
_PARTS = (RETAINED, f"{RETAINED}_whole")
ROUNDING = 1e-12  # nats; float32 probabilities that differ by rounding are 1e-15 apart


def accuracy_changes(names: Sequence[str], before: str, was_in_labels: str) -> dict[str, pl.Expr]:
    """A change of accuracy and its two parts, which add up to it, for every prediction.

    Each is 1 where a prediction becomes right, -1 where it becomes wrong, and else 0. The model
    loses the task where the likeliest token was the first of a label word and no longer is; where
    this is not so, a changed prediction is another choice among labels. The parts are null where
    ``in_labels`` is. ``before`` and ``was_in_labels`` are the columns of the run that is compared
    with.
    """
    difference = ACCURACY - (pl.col(before) == pl.col("label")).cast(pl.Float64)
    lost = pl.col(was_in_labels) > pl.col("in_labels")  # true and then false; null if either is
    return dict(zip(names, (difference, difference * lost, difference * ~lost), strict=True))


def with_loyalty(
    rows: pl.DataFrame, untouched: pl.DataFrame, without: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Add label loyalty, word loyalty, accuracy, and its change to every prediction.

    Label loyalty is 1 where the predicted label is that of the unmodified run, else 0. Word loyalty
    is the Jaccard similarity |a ∩ b| / |a ∪ b| of the sets a and b of most likely tokens. The
    change of accuracy and its parts are those of :func:`accuracy_changes`.

    What is retained of the demonstrations' effect is graded: 1 - Σ D(u, i) / Σ D(u, o), with the
    label probabilities u of the unmodified run, i of the prediction, and o without demonstrations,
    sums over the texts of all seeds, and D of :func:`jensen_shannon`. Where a model mostly gives
    one answer, label loyalty is high whatever is changed, and this is not.

    ``untouched``, the unmodified run, and ``without``, that without demonstrations, have one row
    per seed and example. Given ``without``, ``retained`` and ``retained_whole`` are the parts of
    that ratio; they are null if it has no rows.

    Source: Wang et al. 2023, §2.2, for the two loyalties.
    """
    before = untouched.select(
        *EXAMPLE_KEYS,
        pl.col("prediction").alias("before"),
        pl.col("probabilities").alias("was"),
        pl.col("in_labels").alias("was_in_labels"),
        pl.col("top_tokens").alias("tokens"),
    )
    common = pl.col("top_tokens").list.set_intersection("tokens").list.len()
    either = pl.col("top_tokens").list.set_union("tokens").list.len()
    loyal = (
        rows.join(before, on=EXAMPLE_KEYS)
        .with_columns(
            (pl.col("prediction") == pl.col("before")).cast(pl.Float64).alias("label_loyalty"),
            (common / either).alias("word_loyalty"),
            ACCURACY.alias("accuracy"),
            **accuracy_changes(CHANGES, "before", "was_in_labels"),
        )
        .drop("before", "was_in_labels", "tokens")
    )
    return loyal.drop("was") if without is None else _with_retained(loyal, without).drop("was")


def _with_retained(loyal: pl.DataFrame, without: pl.DataFrame) -> pl.DataFrame:
    """The columns ``retained`` and ``retained_whole``, which add up to the ratio over texts."""
    if without.is_empty():
        return loyal.with_columns(**dict.fromkeys(_PARTS, pl.lit(None, pl.Float64)))
    alone = without.select(*EXAMPLE_KEYS, pl.col("probabilities").alias("alone"))
    pairs = loyal.join(alone, on=EXAMPLE_KEYS, maintain_order="left")
    was, now, none = (
        np.array(pairs[name].to_list(), np.float64).reshape(len(pairs), -1)
        for name in ("was", "probabilities", "alone")
    )
    whole = jensen_shannon(was, none)
    parts = zip(_PARTS, (whole - jensen_shannon(was, now), whole), strict=True)
    return pairs.drop("alone").with_columns(pl.Series(name, values) for name, values in parts)


def share_of_effect(part: Array, whole: Array) -> Array:
    """A part as a share of the demonstrations' effect; NaN where that is no more than rounding."""
    return divided(part, whole, whole > ROUNDING)


def jensen_shannon(first: Array, second: Array) -> Array:
    """Jensen-Shannon divergence of label distributions, in nats: [examples, C] to [examples].

    At most ln 2, so that no single text decides a sum, as with the Kullback-Leibler divergence.
    """
    middle = (first + second) / 2
    parts = rel_entr(first, middle) + rel_entr(second, middle)
    divergence: Array = np.maximum(parts.sum(-1) / 2, 0)  # rounding can make it negative
    return divergence
