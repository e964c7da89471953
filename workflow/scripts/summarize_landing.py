"""Summarize where on the demonstrations the attention of one model lands."""

from anchorflow.landing import summarize_landing
from anchorflow.logs import job_log
from anchorflow.tables import (
    LANDING,
    PLACED,
    PROMPTS,
    SEGMENTED,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_landing(
            read_tables(snakemake.input.segments, SEGMENTED),
            read_tables(snakemake.input.places, PLACED),
            read_tables(snakemake.input.prompts, PROMPTS),
            **statistics,
        )
        settings = {**statistics, **read_settings(snakemake.input.segments[0])}
        write_frame(snakemake.output[0], LANDING, summary, settings)
