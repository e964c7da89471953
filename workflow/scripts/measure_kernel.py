"""Measure attention to many demonstrations as kernel weights, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import is_first
from anchorflow.measure.cell import measuring
from anchorflow.measure.kernel import SCHEMAS, cost, measure_kernel
from anchorflow.model.batches import among
from anchorflow.prepare.kernel_samples import build_kernel_prompts
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, drawn = cell.spec, cell.read("samples", SAMPLES)
        builder = PromptBuilder.open(snakemake.input.tokenizer, cell.task, cell.card["name"])
        examples = cell.examples(drawn)
        texts, prompts = cell.read("texts", TEXTS), cell.read("prompts", PROMPTS)
        shown = build_kernel_prompts(texts, prompts, drawn, builder, spec)
        run = among(shown.prompts, examples)
        tables = measure_kernel(
            cell.model(run, cost, spec),
            builder.tokenizer,
            shown.prompts,
            shown.smaller,
            shown.apart,
            spec["offsets"],
            cell.batch_tokens,
            examples,
        )
        if not is_first(
            cell.shard
        ):  # what belongs to no test text is written with the first shard only
            tables = tables._replace(states=tables.states.clear())
        settings = cell.described(kernel=spec, task=cell.task)
        cell.write(SAMPLES, among(shown.samples, examples), settings, "samples")
        cell.write(PROMPTS, run, settings, "prompts")
        for name, schema in SCHEMAS.items():
            cell.write(schema, getattr(tables, name), settings, name)
