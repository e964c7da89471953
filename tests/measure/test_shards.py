"""Shards of large test sets: the same numbers however they are split."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import polars as pl
import pytest
import torch
from transformers import PreTrainedModel

from anchorflow.config.shards import examples_of
from anchorflow.kept_positions import METHODS
from anchorflow.measure.attention import measure_attention
from anchorflow.measure.compression import ANCHOR, FULL, measure_compression
from anchorflow.measure.cutoff import measure_cutoff
from anchorflow.measure.cutoff import settings_of as cutoffs_of
from anchorflow.measure.faithfulness import measure_faithfulness
from anchorflow.measure.isolation import measure_isolation, settings_of
from anchorflow.measure.kernel import SCHEMAS as KERNEL_TABLES
from anchorflow.measure.kernel import measure_kernel
from anchorflow.measure.knockout import measure_knockout
from anchorflow.measure.knockout import settings_of as cuts_of
from anchorflow.measure.perturbations import measure_perturbations
from anchorflow.measure.retrieval import measure_retrieval
from anchorflow.measure.saliency import measure_saliency
from anchorflow.measure.transplant import measure_transplant
from anchorflow.measure.transplant import settings_of as transplants_of
from anchorflow.model.batches import among
from anchorflow.schemas.frames import frame_schema
from anchorflow.store.all_tables import TABLES
from anchorflow.store.gather import gather
from anchorflow.store.parquet import read_table
from constructed.retrieval import (
    cell_prompts,
    described,
    perturbed_prompts,
    random_predictions,
    untouched_predictions,
)
from kernel_prompts import each_alone, with_first
from stub_tokenizers import Decoder
from table_files import assert_same, write
from tiny_models import shared_prompts, tiny_model

Tables = dict[str, pl.DataFrame]

LENGTHS = [5, 17, 9, 12, 6, 21, 8]
APART = 5  # the one prompt that shares 29 tokens with the others, which share 30
PLACES = {1: ["0-7"], 3: ["0-3", "3-6", "6-7"], 7: [f"{k}-{k + 1}" for k in range(7)]}


def double_model() -> PreTrainedModel:
    """In double precision, so that what is left is not rounding but a dependence on the shards."""
    return tiny_model("llama").double()


def prompts_of_cell(demonstrations: str = "fixed") -> pl.DataFrame:
    prompts = shared_prompts(LENGTHS).with_columns(demonstrations=pl.lit(demonstrations))
    ids = prompts["token_ids"].to_list()
    ids[APART][29] += 1
    return prompts.with_columns(pl.Series("token_ids", ids))


CELL = prompts_of_cell()


def saliency(demonstrations: str, examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = prompts_of_cell(demonstrations)
    rows = measure_saliency(double_model(), prompts, batch_tokens, demonstrations, examples)
    return {"saliency": rows}


def attention(examples: list[int] | None, batch_tokens: int) -> Tables:
    measured = measure_attention(
        double_model(), Decoder(), prompts_of_cell(), batch_tokens, examples
    )
    return dict(zip(("attention", "predictions"), measured, strict=True))


def isolation(examples: list[int] | None, batch_tokens: int) -> Tables:
    positions = ("label", "random", "before", "text")
    settings = settings_of(["mask", "zero"], [1, 2], 5, 3, "tiny", positions)
    rows = measure_isolation(double_model(), prompts_of_cell(), settings, 4, batch_tokens, examples)
    return {"isolation": rows}


def knockout(examples: list[int] | None, batch_tokens: int) -> Tables:
    classes = ("label_to_target", "text_to_label", "demonstrations_to_query", "first_to_all")
    settings = cuts_of(classes, ["single", "all"], 2, 3)
    prompts = prompts_of_cell()
    rows = measure_knockout(double_model(), prompts, settings, "mask", 4, batch_tokens, examples)
    return {"knockout": rows}


def faithfulness(examples: list[int] | None, batch_tokens: int) -> Tables:
    classes, prompts = ("label_to_target", "text_to_label"), prompts_of_cell()
    rows = measure_faithfulness(double_model(), prompts, classes, 2, 2, batch_tokens, examples)
    return {"faithfulness": rows}


def cutoff(examples: list[int] | None, batch_tokens: int) -> Tables:
    settings = cutoffs_of(("first", "label", "random"), 2, 1, 3)
    rows = measure_cutoff(double_model(), prompts_of_cell(), settings, 4, batch_tokens, examples)
    return {"cutoff": rows}


def transplant(examples: list[int] | None, batch_tokens: int) -> Tables:
    places = ("label", "text", "demonstrations")
    settings = transplants_of(places, ("permuted", "drawn"), ("keys_values", "residual"), 3, 2, 3)
    rows = measure_transplant(double_model(), prompts_of_cell(), settings, batch_tokens, examples)
    return {"transplant": rows}


def compression(examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = pl.concat(
        [
            prompts_of_cell(),
            shared_prompts(LENGTHS[:4])[1:].with_columns(demonstrations=pl.lit("training")),
        ]
    )
    beta = torch.linspace(-0.5, 0.5, 3 * 4 * 3).reshape(3, 4, 3)
    methods = ["text_anchor", *(name for name in METHODS if name != "full")]
    spec = {"methods": methods, "shares": [0.2, 0.5], "draws": 3, "positions": "original"}
    betas = {FULL: beta, ANCHOR: -beta}
    rows = measure_compression(tiny_model("llama"), prompts, betas, spec, batch_tokens, examples)
    return {"compression": rows}


def kernel(examples: list[int] | None, batch_tokens: int) -> Tables:
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
    return {
        KERNEL_TABLES[name].metadata[b"table"].decode(): table
        for name, table in measured._asdict().items()
    }


def retrieval(examples: list[int] | None, batch_tokens: int) -> Tables:
    every = list(range(len(LENGTHS)))
    prompts, random = cell_prompts(LENGTHS), random_predictions(every)
    shown = described(prompts, every)
    rows = measure_retrieval(
        double_model(), among(prompts, examples), among(random, examples), shown, batch_tokens
    )
    return {"retrieval": rows}


def perturbations(examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = perturbed_prompts(LENGTHS)
    ids = prompts["token_ids"].to_list()
    ids[APART][29] += 1
    rows = measure_perturbations(
        double_model(),
        prompts.with_columns(pl.Series("token_ids", ids)),
        untouched_predictions(list(range(len(LENGTHS)))),
        batch_tokens,
        examples,
    )
    return {"perturbations": rows}


STAGES: dict[str, Callable[[list[int] | None, int], Tables]] = {
    "saliency": partial(saliency, "per_example"),
    "saliency of fixed demonstrations": partial(saliency, "fixed"),
    "attention": attention,
    "isolation": isolation,
    "knockout": knockout,
    "faithfulness": faithfulness,
    "cutoff": cutoff,
    "transplant": transplant,
    "compression": compression,
    "kernel": kernel,
    "retrieval": retrieval,
    "perturbations": perturbations,
}


@cache
def unsharded(stage: str) -> Tables:
    return STAGES[stage](None, 200)


@pytest.mark.parametrize("shards", PLACES)
@pytest.mark.parametrize("stage", STAGES)
def test_gathered_shards_are_what_one_job_measures(stage: str, shards: int, tmp_path: Path) -> None:
    measured = [STAGES[stage](examples_of(shard, CELL), 200) for shard in PLACES[shards]]
    for table, expected in unsharded(stage).items():
        parts = [tables[table] for tables in measured]
        if table == "states":  # of the demonstrations, which all shards share
            for part in parts:
                assert_same(part, expected)
            continue
        path = tmp_path / f"{table}.parquet"
        gather(write(tmp_path / table, table, parts), path)
        assert_same(read_table(path, TABLES[table]), expected)


@pytest.mark.parametrize("stage", STAGES)
def test_the_batch_size_changes_nothing(stage: str) -> None:
    for table, rows in STAGES[stage](None, 60).items():
        assert_same(rows, unsharded(stage)[table])


@pytest.mark.parametrize("stage", STAGES)
def test_a_shard_beyond_the_last_test_text_has_tables_without_rows(stage: str) -> None:
    examples = examples_of("7-9", CELL)
    assert examples == []
    for table, rows in STAGES[stage](examples, 200).items():
        assert rows.schema == frame_schema(TABLES[table])
        assert len(rows) == (len(unsharded(stage)[table]) if table == "states" else 0)
