"""Predictions with the same demonstrations in several orders, and with fresh draws of them.

A kernel regression does not depend on the order of its pairs; a language model does ([K]). The same
runs yield the predictions of each head's attention as a kernel regression.
"""

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.kernel.measure import predictions_of_heads
from anchorflow.analyses.orders import ORDERS
from anchorflow.analyses.orders.samples import build_arranged
from anchorflow.model.batches import Batch, Budget, among, log_skipped, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.logits import label_predictions, target_label_logits
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import rows_and_logits
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS


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
