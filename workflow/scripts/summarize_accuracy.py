"""Summarize the accuracy of one model over tasks and seeds."""

from anchorflow.accuracy import summarize_accuracy
from anchorflow.logs import job_log
from anchorflow.tables import ACCURACY, PREDICTIONS, PROMPTS, read_tables, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics = snakemake.params.statistics
        summary = summarize_accuracy(
            read_tables(snakemake.input.predictions, PREDICTIONS),
            read_tables(snakemake.input.prompts, PROMPTS),
            **statistics,
        )
        write_frame(snakemake.output[0], ACCURACY, summary, statistics)
