"""Tokenize the prompts of one model, task and seed."""

from anchorflow.logs import job_log
from anchorflow.prompts import Template, build_prompts
from anchorflow.tables import PROMPTS, SAMPLES, read_table, write_frame
from anchorflow.tokenizers import open_tokenizer

if __name__ == "__main__":
    with job_log(snakemake.log[0]):
        spec = snakemake.params.spec
        tokenizer, context = open_tokenizer(snakemake.input.tokenizer)
        prompts = build_prompts(
            read_table(snakemake.input.samples, SAMPLES),
            tokenizer,
            Template.parse(spec["template"]),
            spec["labels"],
            snakemake.wildcards.model,
            context,
        )
        write_frame(snakemake.output[0], PROMPTS, prompts, spec)
