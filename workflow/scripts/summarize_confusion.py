"""Summarize which labels one model confuses and how far their keys lie apart."""

from anchorflow.confusion import summarize_confusion
from anchorflow.logs import job_log
from anchorflow.tables import (
    CONFUSION,
    DIAGNOSIS,
    PREDICTIONS,
    PROMPTS,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_confusion(
            read_tables(snakemake.input.predictions, PREDICTIONS),
            read_tables(snakemake.input.diagnosis, DIAGNOSIS),
            read_tables(snakemake.input.prompts, PROMPTS),
            **statistics,
        )
        settings = {**statistics, **read_settings(snakemake.input.diagnosis[0])}
        write_frame(snakemake.output[0], CONFUSION, summary, settings)
