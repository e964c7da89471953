"""Summarize what ridge probes decode from keys and values of one model."""

from anchorflow.decoding import summarize_decoding
from anchorflow.logs import job_log
from anchorflow.tables import DECODING, PROBES, PROMPTS, read_settings, read_tables, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_decoding(
            read_tables(snakemake.input.probes, PROBES),
            read_tables(snakemake.input.prompts, PROMPTS),
            **statistics,
        )
        settings = {**statistics, **read_settings(snakemake.input.probes[0])}
        write_frame(snakemake.output[0], DECODING, summary, settings)
