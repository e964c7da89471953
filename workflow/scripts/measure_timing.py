"""Time queries with full prompts and compressed demonstrations, for one model and task."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.timing import cost, measure_timing
from anchorflow.model.batches import runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.timing import TIMING
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        run = runnable(prompts, "fixed")[: spec["queries"]]
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost, spec)
        settings = {"timing": spec, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output[0], TIMING, measure_timing(model, prompts, spec), settings)
