"""Build and tokenize the prompts of one model, task, and seed."""

from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, wildcards = snakemake.params.spec, snakemake.wildcards
        builder = PromptBuilder.open(
            snakemake.input.tokenizer, spec, wildcards.model, wildcards.task
        )
        prompts = builder.build(read_table(snakemake.input.samples, SAMPLES))
        write_frame(snakemake.output[0], PROMPTS, prompts, spec)
