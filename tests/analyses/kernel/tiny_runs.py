"""Tiny runs of kernel, for the tests of shards, of memory, and of cost."""

import polars as pl
from transformers import PreTrainedModel

from anchorflow.analyses.kernel.measure import SCHEMAS as KERNEL_TABLES
from anchorflow.analyses.kernel.measure import measure_kernel
from kernel_prompts import each_alone, with_first
from stub_tokenizers import Decoder
from tiny_cells import Limited, Tables, called, double_model, prompts_of_cell


def limited(table: str) -> Limited:
    def run(model: PreTrainedModel, prompts: pl.DataFrame) -> pl.DataFrame:
        shown = called(prompts, "kernel")
        fewer, alone = {1: with_first(shown, 2)}, each_alone(shown)
        return measure_kernel(model, Decoder(), shown, fewer, alone, [0], 1000)[table]

    return run


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = prompts_of_cell("kernel")
    measured = measure_kernel(
        double_model(),
        Decoder(),
        prompts,
        {1: with_first(prompts, 1)},
        each_alone(prompts),
        [-1, 0, 1],  # the last of them is the token in which one prompt differs
        batch_tokens,
        examples,
    )
    return {KERNEL_TABLES[name].name: table for name, table in measured.items()}


SHARDED = {"kernel": sharded}
LIMITED = {f"kernel's {table}": limited(table) for table in ("attention", "similarity", "counts")}
