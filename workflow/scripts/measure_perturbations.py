"""Predict the labels of perturbed test texts, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.perturbations import cost, measure_perturbations
from anchorflow.model.batches import among
from anchorflow.prepare.perturbations import perturbed_samples
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.perturbations import PERTURBATIONS
from anchorflow.schemas.perturbed_texts import PERTURBED_TEXTS
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.parquet import read_settings

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        fixed = cell.read("samples", SAMPLES).filter(demonstrations="fixed")
        examples = cell.examples(fixed)
        prompts = PromptBuilder.open(
            snakemake.input.tokenizer, cell.task, cell.card["name"], snakemake.wildcards.task
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
        texts = read_settings(snakemake.input.texts)
        settings = {**texts, "task": cell.task, "model": cell.card}
        cell.write(PROMPTS, run, settings, "prompts")
        cell.write(PERTURBATIONS, predictions, {**settings, **cell.scoring}, "predictions")
