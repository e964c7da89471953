"""Tokenize the prompts of one model, task and seed."""

from anchorflow.logs import job_log
from anchorflow.prompts import Template, build_prompts
from anchorflow.tables import PROMPTS, SAMPLES, read_table, write_frame
from anchorflow.tokenizer_files import open_tokenizer, read_architecture

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        spec = snakemake.params.spec
        prompts = build_prompts(
            read_table(snakemake.input.samples, SAMPLES),
            open_tokenizer(snakemake.input.tokenizer),
            Template.parse(spec["template"]),
            spec["labels"],
            snakemake.wildcards.model,
            read_architecture(snakemake.input.tokenizer)["context"],
            snakemake.wildcards.task,
        )
        write_frame(snakemake.output[0], PROMPTS, prompts, spec)
