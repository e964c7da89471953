"""Samples for re-weighting and its baselines, in addition to the test prompts.

``training``: texts of the training split, each with the seed's fixed demonstrations; β is fitted
to them. ``many``: the test texts with more demonstrations, the fixed ones and training texts.
``content_free``: inputs without content, for calibration; all fields of such a text are alike.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.config.fields import FIELD_SEPARATOR
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES

CONTENT_FREE = ("N/A", "", "[MASK]")  # Zhao et al. 2021, §4
NO_LABEL = -1


def draw_auxiliary(
    texts: pl.DataFrame,
    samples: pl.DataFrame,
    labels: Sequence[str],
    examples_per_label: int,
    many_demonstrations: int | None,
    fields: int = 1,
) -> pl.DataFrame:
    """Draw training texts for one task and seed, and make the three kinds of samples from them.

    Parameters
    ----------
    texts, samples : DataFrame
        ``TEXTS`` of the task, ``SAMPLES`` of task and seed.
    labels : sequence of str
        Label words, in label order.
    examples_per_label : int
        Training texts of each label, apart from demonstrations and test texts.
    many_demonstrations : int, optional
        Demonstrations of each label in ``many``, more than the fixed ones; by default, all that
        are available.
    fields : int
        Number of fields of each text.

    Returns
    -------
    DataFrame
        Columns of ``SAMPLES``; ``example`` is the row in the training split for ``training`` and
        counts the inputs for ``content_free``.

    Raises
    ------
    InputError
        If a label has too few training texts.
    """
    fixed = samples.filter(pl.col("demonstrations") == "fixed")
    shown = fixed.row(0, named=True)
    training = _draw_training(texts, fixed, labels, examples_per_label)
    demonstrations = pl.DataFrame(
        {
            "demonstration_rows": shown["demonstration_rows"],
            "demonstration_texts": shown["demonstration_texts"],
            "demonstration_labels": shown["demonstration_labels"],
        }
    )
    added = examples_per_label
    if many_demonstrations is not None:
        added = many_demonstrations - len(demonstrations) // len(labels)
    more = _more_demonstrations(demonstrations, training, shown, added)
    free = pl.DataFrame(
        {
            "row": range(len(CONTENT_FREE)),
            "text": [FIELD_SEPARATOR.join([content] * fields) for content in CONTENT_FREE],
            "label": NO_LABEL,
        },
        schema=training.schema,
    )
    test = fixed.select(pl.col("example").alias("row"), "text", "label")
    parts = (
        ("training", training, demonstrations),
        ("many", test, more),
        ("content_free", free, demonstrations),
    )
    return pl.concat([_samples(shown, *part) for part in parts])


def _draw_training(
    texts: pl.DataFrame, fixed: pl.DataFrame, labels: Sequence[str], per_label: int
) -> pl.DataFrame:
    """Row, text and label of the training texts, label by label."""
    shown = fixed.row(0, named=True)
    used = [*fixed["text"], *shown["demonstration_texts"]]
    free = texts.filter(pl.col("split") == "train", ~pl.col("text").is_in(used)).unique(
        "text", keep="first", maintain_order=True
    )
    random = generator(shown["seed"], shown["task"], "training texts")
    parts = []
    for label, word in enumerate(labels):
        rows = free.filter(pl.col("label") == label)
        if len(rows) < per_label:
            raise InputError(
                f'tasks.{shown["task"]}: the label "{word.strip()}" has {len(rows)} training texts '
                "apart from demonstrations and test texts, but reweighting.examples_per_label is "
                f"{per_label}; lower it, or add training texts."
            )
        parts.append(rows[random.permutation(len(rows))[:per_label]])
    return pl.concat(parts).select("row", "text", "label")


def _more_demonstrations(
    demonstrations: pl.DataFrame, training: pl.DataFrame, shown: Mapping[str, Any], added: int
) -> pl.DataFrame:
    """The fixed demonstrations and the first ``added`` training texts of each label, shuffled."""
    more = training.filter(pl.int_range(pl.len()).over("label") < added)
    both = pl.concat(
        [
            demonstrations,
            more.select(
                demonstration_rows="row", demonstration_texts="text", demonstration_labels="label"
            ),
        ],
        how="vertical_relaxed",
    )
    order = generator(shown["seed"], shown["task"], "many demonstrations").permutation(len(both))
    return both[order]


def _samples(
    shown: Mapping[str, Any], protocol: str, queries: pl.DataFrame, demonstrations: pl.DataFrame
) -> pl.DataFrame:
    """Every query with the same demonstrations, as ``SAMPLES``."""
    schema = frame_schema(SAMPLES)
    repeated = {n: [demonstrations[n].to_list()] * len(queries) for n in demonstrations.columns}
    return queries.select(
        pl.lit(shown["task"]).alias("task"),
        pl.lit(shown["seed"]).alias("seed"),
        pl.lit(protocol).alias("demonstrations"),
        pl.col("row").alias("example"),
        "text",
        "label",
        *(pl.Series(name, values, dtype=schema[name]) for name, values in repeated.items()),
    ).cast(schema)
