"""Samples: test texts, and the demonstrations of each of them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.random_draws import generator

PROTOCOLS = ("per_example", "fixed")


def draw_samples(
    texts: pl.DataFrame,
    seed: int,
    labels: list[str],
    test_examples: int,
    demonstrations_per_label: int,
) -> pl.DataFrame:
    """Draw test texts and demonstrations under both protocols.

    ``per_example`` draws fresh demonstrations for each test text ([A] §2.1, saliency); ``fixed``
    draws once per seed (all other experiments). Every label has the same number of
    demonstrations, in random order. The test texts are the same for both, drawn without
    replacement.

    Parameters
    ----------
    texts : DataFrame
        ``TEXTS`` of one task.
    labels : list of str
        Label words, in label order.

    Returns
    -------
    DataFrame
        Columns of ``SAMPLES``, one row per (protocol, test text).

    Raises
    ------
    InputError
        If a label has fewer training texts than demonstrations.
    """
    task = texts["task"][0]
    train = texts.filter(pl.col("split") == "train")
    test = texts.filter(pl.col("split") == "test")
    by_label = [
        train.filter(pl.col("label") == label)["row"].to_numpy() for label in range(len(labels))
    ]
    for word, rows in zip(labels, by_label, strict=True):
        if len(rows) < demonstrations_per_label:
            raise InputError(
                f'tasks.{task}.train: the label "{word.strip()}" has {len(rows)} training texts, '
                f"but demonstrations_per_label is {demonstrations_per_label}; add texts "
                "or lower it."
            )
    chosen = generator(seed, task, "test texts").permutation(len(test))[:test_examples]
    queries = test[np.sort(chosen)]
    text_of = dict(zip(train["row"], train["text"], strict=True))
    label_of = dict(zip(train["row"], train["label"], strict=True))
    draws = {
        "per_example": _draws(by_label, demonstrations_per_label, queries["row"], seed, task),
        "fixed": _draws(by_label, demonstrations_per_label, None, seed, task),
    }
    parts = []
    for protocol in PROTOCOLS:
        drawn = [next(draws[protocol]).tolist() for _ in range(len(queries))]
        parts.append(
            queries.select(
                "task",
                pl.lit(seed, pl.Int64).alias("seed"),
                pl.lit(protocol).alias("demonstrations"),
                pl.col("row").alias("example"),
                "text",
                "label",
                pl.Series("demonstration_rows", drawn, dtype=pl.List(pl.Int32)),
                pl.Series("demonstration_texts", [[text_of[r] for r in row] for row in drawn]),
                pl.Series(
                    "demonstration_labels",
                    [[label_of[r] for r in row] for row in drawn],
                    dtype=pl.List(pl.Int32),
                ),
            )
        )
    return pl.concat(parts)


def with_shuffled_labels(samples: pl.DataFrame) -> pl.DataFrame:
    """The samples with the labels of each prompt's demonstrations in a random order.

    All orders are equally likely, including the original one. Fixed demonstrations have one order
    per seed, others one per test text.

    Parameters
    ----------
    samples : DataFrame
        ``SAMPLES`` of one task and seed.
    """

    def shuffle(row: dict[str, Any]) -> list[int]:
        of_prompt = () if row["demonstrations"] == "fixed" else (row["example"],)
        random = generator(row["seed"], row["task"], "shuffled labels", *of_prompt)
        shuffled: list[int] = random.permutation(row["demonstration_labels"]).tolist()
        return shuffled

    labels = pl.Series(
        "demonstration_labels",
        [shuffle(row) for row in samples.iter_rows(named=True)],
        dtype=pl.List(pl.Int32),
    )
    return samples.with_columns(labels)


def _draws(
    by_label: list[np.ndarray], per_label: int, examples: pl.Series | None, seed: int, task: str
) -> Iterator[np.ndarray]:
    """Demonstration rows, prompt by prompt; the same for all if ``examples`` is None."""

    def draw(*purpose: str | int) -> np.ndarray:
        random = generator(seed, task, *purpose)
        rows = [random.choice(rows, per_label, replace=False) for rows in by_label]
        return random.permutation(np.concatenate(rows))

    if examples is None:
        fixed = draw("fixed demonstrations")
        while True:
            yield fixed
    for example in examples.to_list():
        yield draw("demonstrations", example)
