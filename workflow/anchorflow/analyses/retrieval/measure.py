"""Predictions with chosen demonstrations, for example the test text's nearest training texts.

If in-context learning is kernel regression, it averages the demonstrations' labels, weighted by the
similarity of their texts to the test text. Similar demonstrations should therefore help ([K] §4.2),
as Liu et al. 2022 found (KATE), and so should demonstrations that are representative and in
distribution. The random demonstrations are those of the fixed prompts, which are not run again.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from transformers import PreTrainedModel

from anchorflow.analyses.retrieval import RETRIEVAL
from anchorflow.analyses.retrieval.samples import (
    FIXED,
    OTHER_TASK,
    RANDOM,
    choose_demonstrations,
    cosine,
    texts_for,
    vectors,
)
from anchorflow.model.batches import among, log_skipped
from anchorflow.model.cell import Cell
from anchorflow.model.interventions import predictions_by_kind
from anchorflow.model.last_tokens import FIRST_TOKEN, Words, leave_room
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.embeddings import EMBEDDINGS
from anchorflow.schemas.fields import SCORED
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS


def describe_demonstrations(
    samples: pl.DataFrame, embeddings: pl.DataFrame, of_other: pl.DataFrame | None = None
) -> pl.DataFrame:
    """Similarity of the demonstrations to their test text, and the share with its label.

    One row per sample. For ``other_task``, ``of_other`` has the embeddings of the other task.
    """
    of_train, of_test = vectors(embeddings, "train"), vectors(embeddings, "test")
    other = of_train if of_other is None else vectors(of_other, "train")
    similarity = [
        cosine((other if choice == OTHER_TASK else of_train)[rows], of_test[example]).mean()
        for choice, example, rows in samples.select(
            "demonstrations", "example", "demonstration_rows"
        ).iter_rows()
    ]
    same = [
        np.equal(labels, label).mean()
        for label, labels in samples.select("label", "demonstration_labels").iter_rows()
    ]
    return samples.select(
        pl.col("demonstrations").replace(FIXED, RANDOM).alias("choice"),
        "example",
        pl.Series("similarity", similarity, dtype=pl.Float64),
        pl.Series("same_label", same, dtype=pl.Float64),
    )


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """Every text once with each choice of demonstrations, without a prefix to share."""
    return Cost(len(spec["choices"]) * prompts.whole, whole=True)


def measure_retrieval(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    random: pl.DataFrame,
    described: pl.DataFrame,
    batch_tokens: int,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions for all runnable prompts with chosen demonstrations, and with random ones.

    ``demonstrations`` holds the choice; ``described`` is from :func:`describe_demonstrations`.
    Labels must be scored as for ``random``, the same cell's ``PREDICTIONS`` with fixed
    demonstrations.
    """
    if prompts.is_empty():
        return pl.DataFrame(schema=frame_schema(RETRIEVAL))
    words = Words.scored(prompts, scoring)
    prompts = leave_room(prompts, words)
    log_skipped(prompts, "with chosen demonstrations")
    columns = ("example", "label", *(field.name for field in SCORED))
    plain = random.select(pl.lit(RANDOM).alias("choice"), *columns)
    ordered = predictions_by_kind(model, prompts, plain, RETRIEVAL, batch_tokens, words)
    rows = ordered.join(described, on=["choice", "example"], how="left", maintain_order="left")
    return keyed(rows, prompts.select("model", "task", "seed").row(0, named=True), RETRIEVAL)


def measure(cell: Cell) -> None:
    spec, task = cell.spec, cell.task
    fixed = cell.read("samples", SAMPLES).filter(demonstrations="fixed")
    examples = cell.examples(fixed)
    many = len(fixed["demonstration_rows"][0])  # a shard may have no test text
    fixed = among(fixed, examples)
    embeddings, texts = cell.read("embeddings", EMBEDDINGS), cell.read("texts", TEXTS)
    other, of_other = None, None
    if "other" in spec:
        fields = task["fields"], spec["other"]["fields"]
        other = texts_for(texts, cell.read("other_texts", TEXTS), *fields, many)
        of_other = cell.read("other_embeddings", EMBEDDINGS)
    samples = choose_demonstrations(
        texts, fixed, embeddings, spec["choices"], task["labels"], other
    )
    prompts = PromptBuilder.open(cell.input.tokenizer, task, cell.card["name"], cell.name).build(
        samples
    )
    predictions = measure_retrieval(
        cell.model(prompts, cost, cell.spec),
        prompts,
        among(cell.read("predictions", PREDICTIONS), examples),
        describe_demonstrations(fixed.vstack(samples), embeddings, of_other),
        cell.batch_tokens,
        cell.scoring,
    )
    encoder = cell.settings("embeddings")["encoder"]
    chosen = {"retrieval": spec, "encoder": encoder}
    settings = {**chosen, "task": task, "model": cell.card}
    cell.write(SAMPLES, samples, chosen, "samples")
    cell.write(PROMPTS, prompts, settings, "prompts")
    cell.write(RETRIEVAL, predictions, {**settings, **cell.scoring}, "predictions")
