"""Summarize how loyal one model stays under isolation, over tasks and seeds."""

from anchorflow.logs import job_log
from anchorflow.loyalty import summarize_loyalty
from anchorflow.tables import ISOLATION, LOYALTY, PROMPTS, read_settings, read_tables, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_loyalty(
            read_tables(snakemake.input.isolation, ISOLATION),
            read_tables(snakemake.input.prompts, PROMPTS),
            **statistics,
        )
        settings = {**statistics, **read_settings(snakemake.input.isolation[0])}
        write_frame(snakemake.output[0], LOYALTY, summary, settings)
