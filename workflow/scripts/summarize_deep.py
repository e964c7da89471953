"""Summarize how attention tells the predictions of one model, over tasks and seeds."""

from anchorflow.deep import summarize_deep
from anchorflow.logs import job_log
from anchorflow.tables import ATTENTION, DEEP, PREDICTIONS, read_tables, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_deep(
            read_tables(snakemake.input.attention, ATTENTION),
            read_tables(snakemake.input.predictions, PREDICTIONS),
            **statistics,
        )
        write_frame(snakemake.output[0], DEEP, summary, statistics)
