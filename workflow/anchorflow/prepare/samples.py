"""Samples: test texts, and the demonstrations of each of them."""

from typing import Any

import numpy as np
import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.prepare.same_texts import compared, distinct
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
        If a label has too few training texts, or all test texts are demonstrations.
    """
    task = texts["task"][0]
    train = distinct(texts, "train")
    text_of = dict(zip(train["row"], train["text"], strict=True))
    label_of = dict(zip(train["row"], train["label"], strict=True))
    by_label = [
        train.filter(pl.col("label") == label)["row"].to_numpy() for label in range(len(labels))
    ]

    def draw(without: int | None, *purpose: str | int) -> list[int]:
        random = generator(seed, task, *purpose)
        drawn = []
        for word, rows in zip(labels, by_label, strict=True):
            others = rows[rows != without] if without is not None else rows
            if len(others) < demonstrations_per_label:
                apart = "" if without is None else " apart from a test text"
                raise InputError(
                    f'tasks.{task}.train: the label "{word.strip()}" has {len(others)} training '
                    f"texts{apart}, but demonstrations_per_label is {demonstrations_per_label}; "
                    "add texts or lower it."
                )
            drawn.append(random.choice(others, demonstrations_per_label, replace=False))
        mixed: list[int] = random.permutation(np.concatenate(drawn)).tolist()
        return mixed

    fixed = draw(None, "fixed demonstrations")
    test = distinct(texts, "test", apart_from=[text_of[row] for row in fixed])
    chosen = generator(seed, task, "test texts").permutation(len(test))[:test_examples]
    queries = test[np.sort(chosen)]
    if queries.is_empty():
        raise InputError(
            f"tasks.{task}.test: with seed {seed}, every test text is a demonstration; add others."
        )
    known = dict(zip(train.select(compared()).to_series(), train["row"], strict=True))
    itself = [known.get(text) for text in queries.select(compared()).to_series()]
    draws = {
        "per_example": [
            draw(row, "demonstrations", example)
            for row, example in zip(itself, queries["row"], strict=True)
        ],
        "fixed": [fixed] * len(queries),
    }
    parts = []
    for protocol in PROTOCOLS:
        drawn = draws[protocol]
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
