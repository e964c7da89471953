"""Measure S_wp, S_pq, and S_ww of every layer, for every prompt of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.saliency import cost, measure_saliency
from anchorflow.model.batches import among, runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.saliency import SALIENCY
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        compute = snakemake.config["compute"]
        spec = snakemake.params.spec
        run = among(runnable(prompts, spec["demonstrations"]), examples)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost, spec)
        saliency = measure_saliency(
            model, prompts, compute["batch_tokens"], **spec, examples=examples
        )
        settings = {"saliency": spec, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output[0], SALIENCY, saliency, settings)
