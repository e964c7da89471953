"""Predictions with the same demonstrations in several orders, and with as many fresh draws of them.

A kernel regression does not depend on the order of its pairs; a language model does ([K]). The same
runs yield the predictions of each head's attention as a kernel regression.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.kernel.measure import predictions_of_heads
from anchorflow.analyses.kernel.samples import with_demonstrations, with_first
from anchorflow.analyses.orders import ORDERS
from anchorflow.model.batches import Batch, Budget, among, log_skipped, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.logits import label_predictions, target_label_logits
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import rows_and_logits
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.samples import distinct
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS

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


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Every text once with each order and once with each draw of demonstrations."""
    return Cost(2 * spec["count"] * prompts.once)


def measure_orders(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """Predictions of the model and of all heads' kernel regressions, for every runnable prompt."""
    budget, parts = Budget(batch_tokens), [pl.DataFrame(schema=frame_schema(ORDERS))]
    prompts = taken_together(prompts)
    run = among(prompts.filter(pl.col("skipped").is_null()), examples)
    log_skipped(among(prompts, examples), "of orders and draws")
    with tqdm(total=len(run), desc="orders", unit="prompt", mininterval=1) as progress:
        for name in prompts["demonstrations"].unique(maintain_order=True):
            whole = runnable(prompts, name)
            measured = among(whole, examples)
            if measured.is_empty():
                continue
            prefix = compute_prefix(model, shared_token_ids(whole))

            def measure(batch: Batch, prefix: Prefix = prefix) -> pl.DataFrame:
                rows, scores = rows_and_logits(model, batch, prefix, at_target=target_label_logits)
                return label_predictions(batch, scores).with_columns(
                    predictions_of_heads(rows, batch)
                )

            arrangement, _, number = name.partition("-")
            keys = measured.select("model", "task", "seed").row(0, named=True)
            keys |= {"arrangement": arrangement, "number": int(number)}
            frames = []
            for batch, rows in run_batches(measured, budget, model.device, measure, prefix.tokens):
                frames.append(keyed(rows, keys, ORDERS))
                progress.update(batch.size)
            parts.append(pl.concat(frames).sort("example"))
    return pl.concat(parts)


def measure(cell: Cell) -> None:
    orders = cell.spec
    examples = cell.examples(cell.read("samples", SAMPLES))
    prompts = build_arranged(
        cell.read("kernel", SAMPLES),
        cell.read("texts", TEXTS),
        orders,
        PromptBuilder.open(cell.input.tokenizer, cell.task, cell.card["name"], cell.name),
    )
    run = among(prompts, examples)
    predictions = measure_orders(
        cell.model(run, cost, {"count": orders}), prompts, cell.batch_tokens, examples
    )
    settings = {**cell.settings("kernel"), "orders": orders}
    cell.write(PROMPTS, run, settings, "prompts")
    cell.write(ORDERS, predictions, settings, "predictions")
