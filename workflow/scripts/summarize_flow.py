"""Summarize the information flows of one model over tasks and seeds."""

from anchorflow.flow import summarize_flow
from anchorflow.logs import job_log
from anchorflow.tables import FLOW, PROMPTS, SALIENCY, read_tables, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_flow(
            read_tables(snakemake.input.saliency, SALIENCY),
            read_tables(snakemake.input.prompts, PROMPTS),
            snakemake.params.saliency["demonstrations"],
            **statistics,
        )
        settings = {**statistics, "saliency": snakemake.params.saliency}
        write_frame(snakemake.output[0], FLOW, summary, settings)
