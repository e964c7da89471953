"""Predictions for the same demonstrations in several orders, beside fresh draws of demonstrations.

A kernel regression does not depend on the order of its pairs; a language model does ([K]). What
each head's attention predicts as a kernel regression is recorded from the same runs.
"""

import logging
from collections.abc import Collection, Mapping
from typing import Any

import polars as pl
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.measure.attention import label_predictions, rows_and_logits
from anchorflow.measure.kernel import told_by_heads
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.language_model import target_label_logits
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import taken_together
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.orders import ORDERS

log = logging.getLogger(__name__)


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Every text once in each order, and with as many draws of demonstrations."""
    return Cost(2 * spec["count"] * prompts.once)


def measure_orders(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """Predictions of the model and of all heads' kernel regressions, for every runnable prompt.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed, of the samples of ``arranged_samples``.
    batch_tokens : int
        Upper bound on query tokens per batch; does not affect the results.
    examples : collection of int, optional
        Measure only these test texts; does not affect their results.

    Returns
    -------
    DataFrame
        Columns of ``ORDERS``, ordered by arrangement, number, and example.

    Raises
    ------
    InputError
        If attention is missing, or logits are not finite.
    """
    budget, parts = Budget(batch_tokens), [pl.DataFrame(schema=frame_schema(ORDERS))]
    prompts = taken_together(prompts)
    run = among(prompts.filter(pl.col("skipped").is_null()), examples)
    skipped = len(among(prompts, examples)) - len(run)
    if skipped:
        log.warning("%d prompts are skipped: they exceed the model's context.", skipped)
    with tqdm(total=len(run), desc="orders", unit="prompt", mininterval=1) as progress:
        for name in prompts["demonstrations"].unique(maintain_order=True):
            whole = runnable(prompts, name)
            measured = among(whole, examples)
            if measured.is_empty():
                continue
            prefix = compute_prefix(model, shared_token_ids(whole))

            def measure(batch: Batch, prefix: Prefix = prefix) -> pl.DataFrame:
                rows, scores = rows_and_logits(model, batch, prefix, at_target=target_label_logits)
                return label_predictions(batch, scores).with_columns(told_by_heads(rows, batch))

            arrangement, _, number = name.partition("-")
            keys = measured.select("model", "task", "seed").row(0, named=True)
            keys |= {"arrangement": arrangement, "number": int(number)}
            frames = []
            for batch, rows in run_batches(measured, budget, model.device, measure, prefix.tokens):
                frames.append(keyed(rows, keys, ORDERS))
                progress.update(batch.size)
            parts.append(pl.concat(frames).sort("example"))
    return pl.concat(parts)
