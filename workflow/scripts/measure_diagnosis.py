"""Measure distances between the label words' keys, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.diagnosis import cost, measure_diagnosis
from anchorflow.model.batches import runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.schemas.diagnosis import DIAGNOSIS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        compute, spec = snakemake.config["compute"], snakemake.params.spec
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        run = runnable(prompts, "fixed")
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost)
        diagnosis = measure_diagnosis(model, prompts, spec["components"], compute["batch_tokens"])
        settings = {"diagnosis": spec, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output[0], DIAGNOSIS, diagnosis, settings)
