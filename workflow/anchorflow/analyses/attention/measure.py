"""Attention from the target position to every demonstration, and the model's predictions."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import polars as pl
from tokenizers import Tokenizer
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.attention import ATTENTION
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import FIRST_TOKEN, Ended, Words, leave_room
from anchorflow.model.logits import prediction_frame
from anchorflow.model.prefix import KeepKeys, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import (
    DemonstrationAttention,
    by_demonstration,
    rows_and_logits,
)
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.schemas.frames import frame_schema, keyed, places_of
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS


def cost(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every test text once, after the shared demonstrations."""
    return Cost(prompts.once)


def measure_attention(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    prompts: pl.DataFrame,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Attention to each demonstration, and predictions, for prompts with fixed demonstrations.

    Prompts that exceed the model's context are left out.
    """
    words = Words.scored(prompts, scoring)
    chosen = runnable(leave_room(prompts, words), "fixed")
    attention, predictions = (
        [pl.DataFrame(schema=frame_schema(table))] for table in (ATTENTION, PREDICTIONS)
    )
    measured = among(chosen, examples)
    if measured.is_empty():
        return attention[0], predictions[0]
    prefix = compute_prefix(model, shared_token_ids(chosen))
    keys = prompts.select("model", "task", "seed").row(0, named=True)

    def measure(batch: Batch) -> tuple[pl.DataFrame, pl.DataFrame]:
        # Whole words go on from the query, so its keys and values are needed once more.
        kept = KeepKeys()
        rows, logits = rows_and_logits(model, batch, prefix, *([] if words is None else [kept]))
        frame = _attention_frame(batch, by_demonstration(rows, batch), keys)
        scores = None
        if words is not None:
            scores = words.scores(model, Ended.batch(model, batch, kept, prefix), logits)
        return frame, prediction_frame(batch, logits, tokenizer, keys, scores)

    with tqdm(total=len(measured), desc="attention", unit="example", mininterval=1) as progress:
        for batch, frames in run_batches(
            measured, Budget(batch_tokens), model.device, measure, prefix.tokens
        ):
            attention.append(frames[0])
            predictions.append(frames[1])
            progress.update(batch.size)
    return (
        pl.concat(attention).sort("example", "layer", "head", "demonstration"),
        pl.concat(predictions).sort("example"),
    )


def _attention_frame(
    batch: Batch, rows: DemonstrationAttention, keys: Mapping[str, str | int]
) -> pl.DataFrame:
    shape = rows.label.shape
    labels = batch.demonstration_labels.cpu().numpy()
    frame = pl.DataFrame(
        {
            **places_of(shape, layer=None, example=batch.examples, head=None, demonstration=None),
            "label": np.broadcast_to(labels[:, None], shape).ravel(),
            "attention_label": rows.label.numpy().ravel(),
            "attention_max": rows.largest.numpy().ravel(),
            "attention_mean": rows.mean.numpy().ravel(),
        }
    )
    return keyed(frame, keys, ATTENTION)


def measure(cell: Cell) -> None:
    prompts = cell.read("prompts", PROMPTS)
    examples = cell.examples(prompts)
    attention, predictions = measure_attention(
        cell.model(among(runnable(prompts, "fixed"), examples), cost),
        open_tokenizer(cell.input.tokenizer),
        prompts,
        cell.batch_tokens,
        examples,
        cell.scoring,
    )
    cell.write(ATTENTION, attention, cell.described(), "attention")
    cell.write(PREDICTIONS, predictions, cell.described(), "predictions")
