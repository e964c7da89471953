"""Build and tokenize the prompts of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.cell_names import SHUFFLED, words_of
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.samples import with_shuffled_labels
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, wildcards = snakemake.params.spec, snakemake.wildcards
        builder = PromptBuilder.open(
            snakemake.input.tokenizer,
            spec,
            wildcards.model,
            wildcards.task,
            whole_words=snakemake.config["scoring"] == "whole_word",
        )
        samples = read_table(snakemake.input.samples, SAMPLES)
        if words_of(wildcards.task) == SHUFFLED:
            samples = with_shuffled_labels(samples)
        prompts = builder.build(samples)
        write_frame(snakemake.output[0], PROMPTS, prompts, spec)
