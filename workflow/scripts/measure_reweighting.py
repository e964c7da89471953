"""Fit β and predict with it and with its baselines, for one model, task and seed."""

import polars as pl

from anchorflow.auxiliary import draw_auxiliary
from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.prompts import Template, build_prompts
from anchorflow.reweighting import measure_reweighting
from anchorflow.tables import (
    BETA,
    DESCENT,
    LEARNING_RATES,
    PROMPTS,
    REWEIGHTING,
    SAMPLES,
    TEXTS,
    read_table,
    write_frame,
)
from anchorflow.tokenizer_files import open_tokenizer, read_architecture

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        spec, task = snakemake.params.spec, snakemake.params.task
        compute = snakemake.config["compute"]
        card = read_card(snakemake.input.model)
        auxiliary = build_prompts(
            draw_auxiliary(
                read_table(snakemake.input.texts, TEXTS),
                read_table(snakemake.input.samples, SAMPLES),
                task["labels"],
                spec["examples_per_label"],
                task["many_demonstrations"],
            ),
            open_tokenizer(snakemake.input.tokenizer),
            Template.parse(task["template"]),
            task["labels"],
            card["name"],
            read_architecture(snakemake.input.tokenizer)["context"],
        )
        prompts = pl.concat([read_table(snakemake.input.prompts, PROMPTS), auxiliary])
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts)
        reweighted = measure_reweighting(
            model, prompts, task["labels"], spec, compute["batch_tokens"]
        )
        settings = {"reweighting": spec, "task": task, "model": card}
        write_frame(snakemake.output.prompts, PROMPTS, auxiliary, settings)
        write_frame(snakemake.output.beta, BETA, reweighted.beta, settings)
        write_frame(snakemake.output.descent, DESCENT, reweighted.descent, settings)
        write_frame(
            snakemake.output.learning_rates, LEARNING_RATES, reweighted.learning_rates, settings
        )
        write_frame(snakemake.output.predictions, REWEIGHTING, reweighted.predictions, settings)
