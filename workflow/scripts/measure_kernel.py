"""Measure attention to many demonstrations as kernel weights, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of, is_first
from anchorflow.measure.kernel import SCHEMAS, cost, measure_kernel
from anchorflow.model.batches import among
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.prepare.kernel_samples import build_kernel_prompts
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, task = snakemake.params.spec, snakemake.params.task
        compute, shard = snakemake.config["compute"], snakemake.wildcards.get("examples")
        card = read_card(snakemake.input.model)
        builder = PromptBuilder.open(snakemake.input.tokenizer, task, card["name"])
        drawn = read_table(snakemake.input.samples, SAMPLES)
        examples = examples_of(shard, drawn)
        shown = build_kernel_prompts(
            read_table(snakemake.input.texts, TEXTS),
            read_table(snakemake.input.prompts, PROMPTS),
            drawn,
            builder,
            spec,
        )
        run = among(shown.prompts, examples)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost, spec)
        tables = measure_kernel(
            model,
            builder.tokenizer,
            shown.prompts,
            shown.smaller,
            shown.apart,
            spec["offsets"],
            compute["batch_tokens"],
            examples,
        )
        if not is_first(shard):  # what belongs to no test text is written with the first shard only
            tables = tables._replace(states=tables.states.clear())
        settings = {"kernel": spec, "task": task, "model": card}
        write_frame(snakemake.output.samples, SAMPLES, among(shown.samples, examples), settings)
        write_frame(snakemake.output.prompts, PROMPTS, among(shown.prompts, examples), settings)
        for name, schema in SCHEMAS.items():
            write_frame(snakemake.output[name], schema, getattr(tables, name), settings)
