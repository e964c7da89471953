"""Measure S_wp, S_pq and S_ww of every layer for every prompt of one model, task and seed."""

from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.saliency import measure_saliency
from anchorflow.shards import examples_of
from anchorflow.tables import PROMPTS, SALIENCY, read_table, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        compute = snakemake.config["compute"]
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts, True)
        spec = snakemake.params.spec
        saliency = measure_saliency(
            model, prompts, compute["batch_tokens"], **spec, examples=examples
        )
        settings = {"saliency": spec, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output[0], SALIENCY, saliency, settings)
