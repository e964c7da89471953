"""Summarize what similar demonstrations gain in one model, over tasks and seeds."""

import polars as pl

from anchorflow.logs import job_log
from anchorflow.neighbors import summarize_neighbors
from anchorflow.tables import (
    NEIGHBORS,
    PROMPTS,
    RETRIEVAL,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        predictions = read_tables(snakemake.input.predictions, RETRIEVAL)
        fixed = read_tables(snakemake.input.prompts, PROMPTS).filter(demonstrations="fixed")
        prompts = pl.concat([fixed, read_tables(snakemake.input.retrieved, PROMPTS)])
        statistics = snakemake.params.statistics
        summary = summarize_neighbors(predictions, prompts, **statistics)
        settings = {**statistics, **read_settings(snakemake.input.predictions[0])}
        write_frame(snakemake.output[0], NEIGHBORS, summary, settings)
