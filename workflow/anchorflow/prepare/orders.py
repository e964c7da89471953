"""The demonstrations of kernel regression in several orders, and as many fresh draws of others."""

import numpy as np
import polars as pl

from anchorflow.prepare.kernel_samples import shown
from anchorflow.random_draws import generator

ORDER, DRAW = "order", "draw"


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
    free = texts.filter(
        pl.col("split") == "train", ~pl.col("text").is_in(kernel["text"].implode())
    ).unique("text", keep="first", maintain_order=True)
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
