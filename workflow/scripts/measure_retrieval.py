"""Predict with the nearest training texts as demonstrations, for one model, task and seed."""

import polars as pl

from anchorflow.batches import among
from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.prompts import Template, build_prompts
from anchorflow.retrieval import choose_demonstrations, describe_demonstrations, measure_retrieval
from anchorflow.shards import examples_of
from anchorflow.tables import (
    EMBEDDINGS,
    PREDICTIONS,
    PROMPTS,
    RETRIEVAL,
    SAMPLES,
    TEXTS,
    read_settings,
    read_table,
    write_frame,
)
from anchorflow.tokenizer_files import open_tokenizer, read_architecture

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        spec, task = snakemake.params.spec, snakemake.params.task
        compute = snakemake.config["compute"]
        card = read_card(snakemake.input.model)
        fixed = read_table(snakemake.input.samples, SAMPLES).filter(demonstrations="fixed")
        examples = examples_of(snakemake.wildcards.get("examples"), fixed)
        fixed = among(fixed, examples)
        embeddings = read_table(snakemake.input.embeddings, EMBEDDINGS)
        texts = read_table(snakemake.input.texts, TEXTS)
        samples = choose_demonstrations(texts, fixed, embeddings, spec["choices"], task["labels"])
        prompts = build_prompts(
            samples,
            open_tokenizer(snakemake.input.tokenizer),
            Template.parse(task["template"]),
            task["labels"],
            card["name"],
            read_architecture(snakemake.input.tokenizer)["context"],
            snakemake.wildcards.task,
        )
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts)
        predictions = measure_retrieval(
            model,
            prompts,
            among(read_table(snakemake.input.predictions, PREDICTIONS), examples),
            describe_demonstrations(pl.concat([fixed, samples]), embeddings),
            compute["batch_tokens"],
        )
        encoder = read_settings(snakemake.input.embeddings)["encoder"]
        settings = {"retrieval": spec, "encoder": encoder}
        write_frame(snakemake.output.samples, SAMPLES, samples, settings)
        settings = {**settings, "task": task, "model": card}
        write_frame(snakemake.output.prompts, PROMPTS, prompts, settings)
        write_frame(snakemake.output.predictions, RETRIEVAL, predictions, settings)
