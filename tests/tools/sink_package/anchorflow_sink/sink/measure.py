"""Attention from the target to the prompt's first tokens, in every layer."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import rows_and_logits
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS
from anchorflow_sink.sink import SINK


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Every test text once, after the shared demonstrations."""
    return Cost(prompts.once)


def measure(cell: Cell) -> None:
    """Attention to the first ``sink.tokens`` tokens, for one model, task, and seed."""
    prompts = cell.read("prompts", PROMPTS)
    chosen = runnable(prompts, "fixed")
    measured = among(chosen, cell.examples(prompts))
    frames = [pl.DataFrame(schema=frame_schema(SINK))]
    if not measured.is_empty():
        model = cell.model(measured, cost)
        prefix = compute_prefix(model, shared_token_ids(chosen))
        keys = measured.select("model", "task", "seed").row(0, named=True)
        tokens = cell.spec["tokens"]

        def of_batch(batch: Batch) -> pl.DataFrame:
            rows, _ = rows_and_logits(model, batch, prefix)  # [L, B, H, T]
            sums = rows[..., :tokens].sum(-1).mean(2).double()  # [L, B]
            lengths = prefix.tokens + batch.target_rows.cpu() + 1
            every = {
                "example": batch.examples * len(sums),
                "layer": [layer for layer in range(len(sums)) for _ in batch.examples],
                "attention": sums.flatten().tolist(),
                "even": (tokens / lengths).tolist() * len(sums),
            }
            return keyed(pl.DataFrame(every), keys, SINK)

        budget = Budget(cell.batch_tokens)
        batches = run_batches(measured, budget, model.device, of_batch, prefix.tokens)
        frames += [frame for _, frame in batches]
    sink = pl.concat(frames).sort("example", "layer")
    cell.write(SINK, sink, cell.described(sink=cell.spec))
