"""The demonstrations of kernel regression in several orders, and as many fresh draws of others."""

import logging

import numpy as np
import polars as pl

from anchorflow.prepare.kernel_samples import shown, with_first
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.random_draws import generator

log = logging.getLogger(__name__)

ORDER, DRAW = "order", "draw"


def build_arranged(
    kernel: pl.DataFrame, texts: pl.DataFrame, count: int, builder: PromptBuilder
) -> pl.DataFrame:
    """The prompts of :func:`arranged_samples`, as ``PROMPTS``.

    Where draws of longer texts exceed the context and the demonstrations of ``kernel`` do not, all
    orders and draws have fewer of each label, the first ones of ``kernel``, until they fit too.
    """
    classes = len(builder.labels)
    every = len(kernel["demonstration_rows"][0]) // classes
    for per_label in range(every, 0, -1):
        fewer = with_first(kernel, per_label * classes)
        prompts = builder.build(arranged_samples(fewer, texts, count))
        skipped = prompts.filter(pl.col("skipped").is_not_null())
        own = skipped.filter(demonstrations=f"{ORDER}-0")
        if set(skipped["example"]) == set(own["example"]):
            break
    if per_label < every:
        log.warning(
            "Orders and draws have %d demonstrations of each label instead of %d, with which the "
            "longest draw exceeds the context.",
            per_label,
            every,
        )
    _log_overlap(fewer, texts)
    return prompts


def _log_overlap(kernel: pl.DataFrame, texts: pl.DataFrame) -> None:
    """Log which share of a label's training texts is shown, and so may be drawn again."""
    labels = pl.Series(kernel["demonstration_labels"][0].to_list())
    free = _free(kernel, texts)
    share = max(
        int((labels == label).sum()) / len(free.filter(pl.col("label") == label))
        for label in labels.unique()
    )
    log.log(
        logging.WARNING if share > 0.5 else logging.INFO,
        "Up to %.0f %% of a label's training texts are shown at once, so fresh draws share about "
        "as many of them.",
        100 * share,
    )


def _free(kernel: pl.DataFrame, texts: pl.DataFrame) -> pl.DataFrame:
    """The distinct training texts that are no test text."""
    return texts.filter(
        pl.col("split") == "train", ~pl.col("text").is_in(kernel["text"].implode())
    ).unique("text", keep="first", maintain_order=True)


def arranged_samples(kernel: pl.DataFrame, texts: pl.DataFrame, count: int) -> pl.DataFrame:
    """The test texts of one task and seed, with the same demonstrations in ``count`` orders, and
    with demonstrations that are drawn anew as many times.

    The first order is that of ``kernel``. A fresh draw has as many training texts of each label, in
    random order; none is a test text.

    Parameters
    ----------
    kernel : DataFrame
        ``SAMPLES`` of kernel regression, of one model, task, and seed.
    texts : DataFrame
        ``TEXTS`` of the task.

    Returns
    -------
    DataFrame
        Columns of ``SAMPLES``; ``demonstrations`` is ``order-0``, ``order-1``, ..., ``draw-0``, ...
    """
    task, seed = kernel["task"][0], kernel["seed"][0]
    first = kernel.row(0, named=True)
    own = pl.DataFrame(
        {
            name: first[f"demonstration_{many}"]
            for name, many in (("row", "rows"), ("text", "texts"), ("label", "labels"))
        }
    )
    free = _free(kernel, texts)
    wanted = own["label"].value_counts().sort("label").rows()
    arranged = []
    for number in range(count):
        order = np.arange(len(own))
        if number:
            order = generator(seed, task, "order of demonstrations", number).permutation(order)
        arranged.append(shown(kernel, own[order], f"{ORDER}-{number}"))
    for number in range(count):
        random = generator(seed, task, "fresh demonstrations", number)
        drawn = pl.concat(
            rows[random.choice(len(rows), many, replace=False)]
            for label, many in wanted
            for rows in [free.filter(pl.col("label") == label)]
        )
        mixed = drawn[random.permutation(len(drawn))]
        arranged.append(shown(kernel, mixed, f"{DRAW}-{number}"))
    return pl.concat(arranged)
