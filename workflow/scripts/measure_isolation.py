"""Predict with isolated positions, for every prompt of one model, task and seed."""

from anchorflow.isolation import measure_isolation, settings_of
from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.shards import examples_of
from anchorflow.tables import ISOLATION, PROMPTS, read_table, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        card = read_card(snakemake.input.model)
        settings = settings_of(
            spec["variants"], spec.get("layers"), spec["draws"], card["layers"], card["name"]
        )
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts)
        isolation = measure_isolation(
            model, prompts, settings, spec["top_tokens"], compute["batch_tokens"], examples
        )
        write_frame(snakemake.output[0], ISOLATION, isolation, {"isolation": spec, "model": card})
