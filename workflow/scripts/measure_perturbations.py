"""Predict the labels of perturbed test texts, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.perturbations import cost, measure_perturbations
from anchorflow.model.batches import among
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.prepare.perturbations import perturbed_samples
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.perturbations import PERTURBATIONS
from anchorflow.schemas.perturbed_texts import PERTURBED_TEXTS
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.job import job
from anchorflow.store.parquet import read_settings, read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        task, scoring = snakemake.params.task, snakemake.params.scoring
        compute, card = snakemake.config["compute"], read_card(snakemake.input.model)
        fixed = read_table(snakemake.input.samples, SAMPLES).filter(demonstrations="fixed")
        examples = examples_of(snakemake.wildcards.get("examples"), fixed)
        samples = perturbed_samples(fixed, read_table(snakemake.input.texts, PERTURBED_TEXTS))
        prompts = PromptBuilder.open(
            snakemake.input.tokenizer, task, card["name"], snakemake.wildcards.task
        ).build(samples)
        predictions = measure_perturbations(
            open_for_job(
                snakemake.input.model,
                compute,
                snakemake.threads,
                among(prompts, examples),
                cost,
                {"kinds": prompts["demonstrations"].unique()},
            ),
            prompts,
            read_table(snakemake.input.predictions, PREDICTIONS),
            compute["batch_tokens"],
            examples,
            scoring,
        )
        settings = {**read_settings(snakemake.input.texts), "task": task, "model": card}
        write_frame(snakemake.output.prompts, PROMPTS, among(prompts, examples), settings)
        scored = {**settings, **scoring}
        write_frame(snakemake.output.predictions, PERTURBATIONS, predictions, scored)
