"""Measure attention to many demonstrations as kernel weights, for one model, task and seed."""

from functools import partial

from anchorflow.batches import among
from anchorflow.kernel import SCHEMAS, measure_kernel
from anchorflow.kernel_prompts import alone, draw_kernel_samples, smaller_counts, with_first
from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.prompts import Template, build_prompts
from anchorflow.shards import examples_of, is_first
from anchorflow.tables import PROMPTS, SAMPLES, TEXTS, read_table, write_frame
from anchorflow.tokenizer_files import open_tokenizer, read_architecture

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        spec, task = snakemake.params.spec, snakemake.params.task
        compute = snakemake.config["compute"]
        shard = snakemake.wildcards.get("examples")
        drawn = read_table(snakemake.input.samples, SAMPLES)
        examples = examples_of(shard, drawn)
        card = read_card(snakemake.input.model)
        tokenizer = open_tokenizer(snakemake.input.tokenizer)
        template, labels = Template.parse(task["template"]), task["labels"]
        context = read_architecture(snakemake.input.tokenizer)["context"]
        samples = draw_kernel_samples(
            read_table(snakemake.input.texts, TEXTS),
            read_table(snakemake.input.prompts, PROMPTS),
            drawn,
            tokenizer,
            template,
            labels,
            spec["demonstration_tokens"],
            spec.get("demonstrations_per_label"),
            context,
        )
        build = partial(
            build_prompts,
            tokenizer=tokenizer,
            template=template,
            labels=labels,
            model=card["name"],
            context=context,
        )
        prompts = build(samples)
        per_label = len(samples["demonstration_rows"][0]) // len(labels)
        smaller = {
            count: build(with_first(samples, count * len(labels)))
            for count in smaller_counts(per_label)
        }
        tests, demonstrations = alone(samples)
        tables = measure_kernel(
            open_for_job(snakemake.input.model, compute, snakemake.threads, prompts),
            tokenizer,
            prompts,
            smaller,
            (build(tests), build(demonstrations)),
            spec["offsets"],
            compute["batch_tokens"],
            examples,
        )
        settings = {"kernel": spec, "task": task, "model": card}
        if not is_first(shard):  # what belongs to no test text comes with the first shard alone
            tables = tables._replace(states=tables.states.clear())
        write_frame(snakemake.output.samples, SAMPLES, among(samples, examples), settings)
        write_frame(snakemake.output.prompts, PROMPTS, among(prompts, examples), settings)
        for name, schema in SCHEMAS.items():
            write_frame(snakemake.output[name], schema, getattr(tables, name), settings)
