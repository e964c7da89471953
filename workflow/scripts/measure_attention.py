"""Measure attention to every demonstration, and the predictions, of one model, task and seed."""

from anchorflow.attention import measure_attention
from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.shards import examples_of
from anchorflow.tables import ATTENTION, PREDICTIONS, PROMPTS, read_table, write_frame
from anchorflow.tokenizer_files import open_tokenizer

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        tokenizer = open_tokenizer(snakemake.input.tokenizer)
        compute = snakemake.config["compute"]
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts)
        attention, predictions = measure_attention(
            model, tokenizer, prompts, compute["batch_tokens"], examples
        )
        settings = {"model": read_card(snakemake.input.model)}
        write_frame(snakemake.output.attention, ATTENTION, attention, settings)
        write_frame(snakemake.output.predictions, PREDICTIONS, predictions, settings)
