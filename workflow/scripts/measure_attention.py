"""Measure attention to every demonstration and predictions, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.attention import cost, measure_attention
from anchorflow.model.batches import among, runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.schemas.attention import ATTENTION
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        tokenizer = open_tokenizer(snakemake.input.tokenizer)
        compute = snakemake.config["compute"]
        run = among(runnable(prompts, "fixed"), examples)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost)
        scoring = snakemake.params.scoring
        attention, predictions = measure_attention(
            model, tokenizer, prompts, compute["batch_tokens"], examples, scoring
        )
        settings = {**scoring, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output.attention, ATTENTION, attention, settings)
        write_frame(snakemake.output.predictions, PREDICTIONS, predictions, settings)
