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
from tqdm import tqdm
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
from anchorflow.model.batches import Batch, Budget, among, log_skipped, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.interventions import answers_of_runs
from anchorflow.model.last_tokens import FIRST_TOKEN, Words, leave_room
from anchorflow.model.logits import predictions_of
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.embeddings import EMBEDDINGS
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
    choices = prompts["demonstrations"].unique(maintain_order=True).to_list()
    words = Words.scored(prompts, scoring)
    prompts = leave_room(prompts, words)
    run = prompts.filter(pl.col("skipped").is_null())
    log_skipped(prompts, "with chosen demonstrations")
    parts = [
        random.select(
            pl.lit(RANDOM).alias("choice"),
            *("example", "label", "prediction", "probabilities", "label_mass", "in_labels"),
        )
    ]

    def measure(batch: Batch) -> pl.DataFrame:
        (answers,) = answers_of_runs(model, batch, None, (), 1, words)
        return predictions_of(batch, answers)

    budget = Budget(batch_tokens)
    with tqdm(total=len(run), desc="retrieval", unit="prompt", mininterval=1) as progress:
        for choice in choices:
            chosen_prompts = runnable(prompts, choice)
            for batch, rows in run_batches(chosen_prompts, budget, model.device, measure):
                chosen = rows.select(pl.lit(choice).alias("choice"), pl.all())
                parts.append(chosen.cast(parts[0].schema))
                progress.update(batch.size)
    order = {choice: place for place, choice in enumerate([RANDOM, *choices])}
    ordered = (
        pl.concat(parts)
        .join(described, on=["choice", "example"], how="left")
        .sort("example", pl.col("choice").replace_strict(order, return_dtype=pl.Int32))
    )
    return keyed(ordered, prompts.select("model", "task", "seed").row(0, named=True), RETRIEVAL)


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
