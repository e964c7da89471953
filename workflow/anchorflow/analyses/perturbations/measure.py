"""Predictions for perturbed test texts, and for the untouched ones ([K] Table 1).

All prompts share the fixed demonstrations, which are run once. Predictions for untouched texts are
read from the attention stage.
"""

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl
from transformers import PreTrainedModel

from anchorflow.analyses.perturbations import PERTURBATIONS, PERTURBED_TEXTS
from anchorflow.analyses.perturbations.texts import perturbed_samples
from anchorflow.model.batches import among, log_skipped
from anchorflow.model.cell import Cell
from anchorflow.model.interventions import predictions_by_kind
from anchorflow.model.last_tokens import FIRST_TOKEN, Words, leave_room
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.fields import SCORED
from anchorflow.schemas.frames import keyed
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES

UNTOUCHED = "untouched"


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Every text once with each perturbation."""
    return Cost(len(spec["kinds"]) * prompts.once)


def measure_perturbations(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    untouched: pl.DataFrame,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions for all runnable prompts with perturbed texts, and for the untouched ones.

    ``demonstrations`` holds the perturbation. Labels must be scored as for ``untouched``, the same
    cell's ``PREDICTIONS``.
    """
    words = Words.scored(prompts, scoring)
    prompts = leave_room(prompts, words)
    every = prompts.filter(pl.col("skipped").is_null())
    log_skipped(prompts, "with perturbed texts")
    columns = ("example", "label", *(field.name for field in SCORED))
    plain = among(untouched, examples).select(pl.lit(UNTOUCHED).alias("perturbation"), *columns)
    nothing_runs = among(every, examples).is_empty()
    prefix = None if nothing_runs else compute_prefix(model, shared_token_ids(every))
    run = among(prompts, examples)
    ordered = predictions_by_kind(model, run, plain, PERTURBATIONS, batch_tokens, words, prefix)
    return keyed(ordered, prompts.select("model", "task", "seed").row(0, named=True), PERTURBATIONS)


def measure(cell: Cell) -> None:
    fixed = cell.read("samples", SAMPLES).filter(demonstrations="fixed")
    examples = cell.examples(fixed)
    prompts = PromptBuilder.open(
        cell.input.tokenizer, cell.task, cell.card["name"], cell.name
    ).build(perturbed_samples(fixed, cell.read("texts", PERTURBED_TEXTS)))
    run = among(prompts, examples)
    predictions = measure_perturbations(
        cell.model(run, cost, {"kinds": prompts["demonstrations"].unique()}),
        prompts,
        cell.read("predictions", PREDICTIONS),
        cell.batch_tokens,
        examples,
        cell.scoring,
    )
    texts = cell.settings("texts")
    settings = {**texts, "task": cell.task, "model": cell.card}
    cell.write(PROMPTS, run, settings, "prompts")
    cell.write(PERTURBATIONS, predictions, {**settings, **cell.scoring}, "predictions")
