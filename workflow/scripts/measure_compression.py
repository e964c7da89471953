"""Predict from compressed demonstrations, for every prompt of one model, task and seed."""

import polars as pl

from anchorflow.compression import measure_compression
from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.reweighting import beta_of
from anchorflow.shards import examples_of
from anchorflow.tables import BETA, COMPRESSION, PROMPTS, read_table, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        prompts = pl.concat(
            [
                read_table(snakemake.input.prompts, PROMPTS),
                read_table(snakemake.input.training, PROMPTS),
            ]
        )
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        beta = beta_of(read_table(snakemake.input.beta, BETA))
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts)
        compression = measure_compression(
            model,
            prompts,
            beta,
            spec,
            snakemake.params.reweighting,
            compute["batch_tokens"],
            examples,
        )
        settings = {
            "compression": spec,
            "reweighting": snakemake.params.reweighting,
            "model": read_card(snakemake.input.model),
        }
        write_frame(snakemake.output[0], COMPRESSION, compression, settings)
