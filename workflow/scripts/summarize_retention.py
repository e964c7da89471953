"""Summarize what compressed prompts retain in one model, over tasks and seeds."""

from anchorflow.logs import job_log
from anchorflow.retention import summarize_retention
from anchorflow.tables import (
    COMPRESSION,
    PROMPTS,
    RETENTION,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_retention(
            read_tables(snakemake.input.compression, COMPRESSION),
            read_tables(snakemake.input.prompts, PROMPTS),
            **statistics,
        )
        settings = {**statistics, **read_settings(snakemake.input.compression[0])}
        write_frame(snakemake.output[0], RETENTION, summary, settings)
