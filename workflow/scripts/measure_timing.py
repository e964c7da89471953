"""Time queries with full prompts and compressed demonstrations, for one model and task."""

from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.tables import PROMPTS, TIMING, read_table, write_frame
from anchorflow.timing import measure_timing

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts)
        settings = {"timing": spec, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output[0], TIMING, measure_timing(model, prompts, spec), settings)
