"""Predict from compressed demonstrations, for every prompt of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.compression import ANCHOR, FULL, cost, measure_compression
from anchorflow.measure.reweighting import beta_of
from anchorflow.model.batches import among
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.schemas.compression import COMPRESSION
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.reweighting import BETA
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        prompts, betas = read_table(snakemake.input.prompts, PROMPTS), {}
        if snakemake.input.training:  # not for untrained twins
            prompts = prompts.vstack(read_table(snakemake.input.training, PROMPTS))
        for cache, name in ((FULL, "beta"), (ANCHOR, "beta_anchor")):
            if snakemake.input[name]:
                betas[cache] = beta_of(read_table(snakemake.input[name], BETA))
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        run = among(prompts.filter(demonstrations="fixed"), examples)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost, spec)
        compression = measure_compression(
            model,
            prompts,
            betas,
            spec,
            compute["batch_tokens"],
            examples,
            snakemake.params.scoring,
        )
        settings = {
            "compression": spec,
            **snakemake.params.scoring,
            "model": read_card(snakemake.input.model),
        }
        write_frame(snakemake.output[0], COMPRESSION, compression, settings)
