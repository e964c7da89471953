"""Demonstrations of kernel regression in several orders, and the same number of fresh draws."""

import logging

import numpy as np
import polars as pl

from anchorflow.analyses.kernel.samples import with_demonstrations, with_first
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.samples import distinct
from anchorflow.random_draws import generator

log = logging.getLogger(__name__)

ORDER, DRAW = "order", "draw"


def build_arranged(
    kernel: pl.DataFrame, texts: pl.DataFrame, count: int, builder: PromptBuilder
) -> pl.DataFrame:
    """The prompts of :func:`arranged_samples`, as ``PROMPTS``.

    Where a draw of longer texts exceeds the context although the demonstrations of ``kernel`` fit,
    all orders and draws have fewer demonstrations of each label, the first ones of ``kernel``. All
    have the same number, so that they remain comparable.
    """
    classes = len(builder.labels)
    every = len(kernel["demonstration_rows"][0]) // classes
    for per_label in range(every, 0, -1):
        fewer = with_first(kernel, per_label * classes)
        prompts = builder.build(arranged_samples(fewer, texts, count))
        skipped = prompts.filter(pl.col("tokens") > pl.col("context"))
        original = skipped.filter(demonstrations=f"{ORDER}-0")
        if set(skipped["example"]) == set(original["example"]):
            break
    if per_label < every:
        log.warning(
            "Orders and draws have %d demonstrations of each label instead of %d: with more, the "
            "longest draw exceeds the context.",
            per_label,
            every,
        )
    _log_overlap(fewer, texts)
    return prompts


def _log_overlap(kernel: pl.DataFrame, texts: pl.DataFrame) -> None:
    """Log the largest share of a label's training texts in one prompt, which draws share too."""
    labels = pl.Series(kernel["demonstration_labels"][0].to_list())
    free = distinct(texts, "train", apart_from=kernel["text"])
    share = max(
        int((labels == label).sum()) / len(free.filter(pl.col("label") == label))
        for label in labels.unique()
    )
    log.log(
        logging.WARNING if share > 0.5 else logging.INFO,
        "A prompt shows up to %.0f %% of a label's training texts; fresh draws overlap by about "
        "the same share.",
        100 * share,
    )


def arranged_samples(kernel: pl.DataFrame, texts: pl.DataFrame, count: int) -> pl.DataFrame:
    """The test texts of one task and seed with ``count`` orders and ``count`` fresh draws.

    The first order is that of ``kernel``. A fresh draw has the same number of training texts of
    each label, in random order and without test texts. ``demonstrations`` is ``order-0``,
    ``order-1``, ..., ``draw-0``, ...
    """
    task, seed = kernel["task"][0], kernel["seed"][0]
    first = kernel.row(0, named=True)
    original = pl.DataFrame(
        {
            name: first[f"demonstration_{many}"]
            for name, many in (("row", "rows"), ("text", "texts"), ("label", "labels"))
        }
    )
    free = distinct(texts, "train", apart_from=kernel["text"])
    wanted = original["label"].value_counts().sort("label").rows()
    arranged = []
    for number in range(count):
        order = np.arange(len(original))
        if number:
            order = generator(seed, task, "order of demonstrations", number).permutation(order)
        arranged.append(with_demonstrations(kernel, original[order], f"{ORDER}-{number}"))
    for number in range(count):
        random = generator(seed, task, "fresh demonstrations", number)
        drawn = pl.concat(
            rows[random.choice(len(rows), many, replace=False)]
            for label, many in wanted
            for rows in [free.filter(pl.col("label") == label)]
        )
        mixed = drawn[random.permutation(len(drawn))]
        arranged.append(with_demonstrations(kernel, mixed, f"{DRAW}-{number}"))
    return pl.concat(arranged)
