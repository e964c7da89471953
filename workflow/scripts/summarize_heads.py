"""Summarize how well kernel regression on each head of one model reconstructs its predictions."""

from anchorflow.heads import summarize_heads
from anchorflow.logs import job_log
from anchorflow.tables import (
    HEADS,
    KERNEL,
    PREDICTIONS,
    PROMPTS,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_heads(
            read_tables(snakemake.input.kernel, KERNEL),
            read_tables(snakemake.input.predictions, PREDICTIONS),
            read_tables(snakemake.input.prompts, PROMPTS),
            **statistics,
        )
        settings = {**statistics, **read_settings(snakemake.input.kernel[0])}
        write_frame(snakemake.output[0], HEADS, summary, settings)
