"""Summarize one model's in-context learning beside regressions on the same demonstrations."""

from anchorflow.logs import job_log
from anchorflow.regressors import summarize_regressors
from anchorflow.tables import (
    COUNTS,
    EMBEDDINGS,
    KERNEL,
    PREDICTIONS,
    PROMPTS,
    REGRESSORS,
    SAMPLES,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics, temperature = snakemake.params.statistics, snakemake.params.temperature
        summary = summarize_regressors(
            read_tables(snakemake.input.kernel, KERNEL),
            read_tables(snakemake.input.predictions, PREDICTIONS),
            read_tables(snakemake.input.counts, COUNTS),
            read_tables(snakemake.input.samples, SAMPLES),
            read_tables(snakemake.input.prompts, PROMPTS),
            read_tables(snakemake.input.embeddings, EMBEDDINGS),
            temperature,
            **statistics,
        )
        settings = {
            **statistics,
            "temperature": temperature,
            **read_settings(snakemake.input.embeddings[0]),
            **read_settings(snakemake.input.kernel[0]),
        }
        write_frame(snakemake.output[0], REGRESSORS, summary, settings)
