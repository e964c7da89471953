"""Samples for re-weighting and its baselines, in addition to the test prompts.

``training``: texts of the training split, each with the seed's fixed demonstrations; β is fitted
to them. ``many``: the test texts with more demonstrations, the fixed ones and training texts.
Inputs of a baseline, for example texts without content: by the name of the baseline.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.prepare.samples import distinct
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES

NO_LABEL = -1  # of the inputs of baselines


def draw_auxiliary(
    texts: pl.DataFrame,
    samples: pl.DataFrame,
    labels: Sequence[str],
    examples_per_label: int,
    many_demonstrations: int | None,
    inputs: Mapping[str, Sequence[str]],
    asked: Collection[int] | None = None,
) -> pl.DataFrame:
    """Draw training texts for one task and seed, and build all kinds of samples from them.

    Training texts are apart from demonstrations and test texts. ``many`` has
    ``many_demonstrations`` of each label, more than the fixed ones; by default, all that are
    available, before the test texts ``asked``, all by default. The ``inputs`` of baselines follow
    the fixed demonstrations. ``example`` is the row in the training split for ``training`` and
    counts the inputs of a baseline.
    """
    fixed = samples.filter(pl.col("demonstrations") == "fixed")
    first = fixed.row(0, named=True)
    training = _draw_training(texts, fixed, labels, examples_per_label)
    demonstrations = pl.DataFrame(
        {
            "demonstration_rows": first["demonstration_rows"],
            "demonstration_texts": first["demonstration_texts"],
            "demonstration_labels": first["demonstration_labels"],
        }
    )
    added = examples_per_label
    if many_demonstrations is not None:
        added = many_demonstrations - len(demonstrations) // len(labels)
    more = _more_demonstrations(demonstrations, training, first, added)
    chosen = fixed if asked is None else fixed.filter(pl.col("example").is_in(list(asked)))
    test = chosen.select(pl.col("example").alias("row"), "text", "label")
    parts = [("training", training, demonstrations), ("many", test, more)]
    for name, input_texts in inputs.items():
        queries = pl.DataFrame(
            {"row": range(len(input_texts)), "text": input_texts, "label": NO_LABEL},
            schema=training.schema,
        )
        parts.append((name, queries, demonstrations))
    return pl.concat([_samples(first, *part) for part in parts])


def _draw_training(
    texts: pl.DataFrame, fixed: pl.DataFrame, labels: Sequence[str], per_label: int
) -> pl.DataFrame:
    """Row, text and label of the training texts, label by label."""
    first = fixed.row(0, named=True)
    used = [*fixed["text"], *first["demonstration_texts"]]
    free = distinct(texts, "train", apart_from=used)
    random = generator(first["seed"], first["task"], "training texts")
    parts = []
    for label, word in enumerate(labels):
        rows = free.filter(pl.col("label") == label)
        if len(rows) < per_label:
            raise InputError(
                f'tasks.{first["task"]}: the label "{word.strip()}" has {len(rows)} training texts '
                "apart from demonstrations and test texts, but reweighting.examples_per_label is "
                f"{per_label}; lower it, or add training texts."
            )
        parts.append(rows[random.permutation(len(rows))[:per_label]])
    return pl.concat(parts).select("row", "text", "label")


def _more_demonstrations(
    demonstrations: pl.DataFrame, training: pl.DataFrame, first: Mapping[str, Any], added: int
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
    order = generator(first["seed"], first["task"], "many demonstrations").permutation(len(both))
    return both[order]


def _samples(
    first: Mapping[str, Any], protocol: str, queries: pl.DataFrame, demonstrations: pl.DataFrame
) -> pl.DataFrame:
    """Every query with the same demonstrations, as ``SAMPLES``."""
    schema = frame_schema(SAMPLES)
    repeated = {n: [demonstrations[n].to_list()] * len(queries) for n in demonstrations.columns}
    return queries.select(
        pl.lit(first["task"]).alias("task"),
        pl.lit(first["seed"]).alias("seed"),
        pl.lit(protocol).alias("demonstrations"),
        pl.col("row").alias("example"),
        "text",
        "label",
        *(pl.Series(name, values, dtype=schema[name]) for name, values in repeated.items()),
    ).cast(schema)
