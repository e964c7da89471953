"""Measure distances between the label words' keys, for one model, task and seed."""

from anchorflow.diagnosis import measure_diagnosis
from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.tables import DIAGNOSIS, PROMPTS, read_table, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        compute = snakemake.config["compute"]
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts)
        diagnosis = measure_diagnosis(model, prompts, compute["batch_tokens"])
        settings = {"model": read_card(snakemake.input.model)}
        write_frame(snakemake.output[0], DIAGNOSIS, diagnosis, settings)
