"""Summarize how well one model predicts re-weighted and otherwise, over tasks and seeds."""

import polars as pl

from anchorflow.logs import job_log
from anchorflow.performance import summarize_performance
from anchorflow.tables import (
    PERFORMANCE,
    PROMPTS,
    REWEIGHTING,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        predictions = read_tables(snakemake.input.predictions, REWEIGHTING)
        prompts = pl.concat(
            [
                read_tables(snakemake.input.prompts, PROMPTS),
                read_tables(snakemake.input.auxiliary, PROMPTS),
            ]
        )
        statistics = snakemake.params.statistics
        summary = summarize_performance(predictions, prompts, **statistics)
        settings = {**statistics, **read_settings(snakemake.input.predictions[0])}
        write_frame(snakemake.output[0], PERFORMANCE, summary, settings)
