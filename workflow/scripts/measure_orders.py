"""Predict with demonstrations in several orders, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.orders import cost, measure_orders
from anchorflow.model.batches import among
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.prepare.orders import build_arranged
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.orders import ORDERS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_settings, read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        compute, card = snakemake.config["compute"], read_card(snakemake.input.model)
        fixed = read_table(snakemake.input.samples, SAMPLES)
        examples = examples_of(snakemake.wildcards.get("examples"), fixed)
        prompts = build_arranged(
            read_table(snakemake.input.kernel, SAMPLES),
            read_table(snakemake.input.texts, TEXTS),
            snakemake.params.orders,
            PromptBuilder.open(
                snakemake.input.tokenizer,
                snakemake.params.task,
                card["name"],
                snakemake.wildcards.task,
            ),
        )
        predictions = measure_orders(
            open_for_job(
                snakemake.input.model,
                compute,
                snakemake.threads,
                among(prompts, examples),
                cost,
                {"count": snakemake.params.orders},
            ),
            prompts,
            compute["batch_tokens"],
            examples,
        )
        settings = {**read_settings(snakemake.input.kernel), "orders": snakemake.params.orders}
        write_frame(snakemake.output.prompts, PROMPTS, among(prompts, examples), settings)
        write_frame(snakemake.output.predictions, ORDERS, predictions, settings)
