"""Summarize what one model does with other label words, over tasks and seeds."""

from anchorflow.label_words import summarize_label_words
from anchorflow.logs import job_log
from anchorflow.tables import (
    ISOLATION,
    LABEL_WORDS,
    PREDICTIONS,
    PROMPTS,
    SALIENCY,
    read_settings,
    read_tables,
    write_frame,
)

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        statistics, spec = snakemake.params.statistics, snakemake.params.spec
        summary = summarize_label_words(
            read_tables(snakemake.input.predictions, PREDICTIONS),
            read_tables(snakemake.input.saliency, SALIENCY),
            read_tables(snakemake.input.isolation, ISOLATION),
            read_tables(snakemake.input.prompts, PROMPTS),
            **spec,
            **statistics,
        )
        measured = read_settings(snakemake.input.isolation[0])
        settings = {**statistics, **measured, "label_words": spec}
        write_frame(snakemake.output[0], LABEL_WORDS, summary, settings)
