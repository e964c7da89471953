"""Fit β and predict with it and with its baselines, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.baselines import draw_inputs
from anchorflow.measure.reweighting import SCHEMAS, cost, measure_reweighting
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.reweighting_samples import draw_auxiliary
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, task = snakemake.params.spec, snakemake.params.task
        compute, card = snakemake.config["compute"], read_card(snakemake.input.model)
        samples = read_table(snakemake.input.samples, SAMPLES)
        tested = read_table(snakemake.input.prompts, PROMPTS)
        further = draw_auxiliary(
            read_table(snakemake.input.texts, TEXTS),
            samples,
            task["labels"],
            spec["examples_per_label"],
            task["many_demonstrations"],
            draw_inputs(spec["baselines"], samples, tested, len(task["fields"])),
        )
        builder = PromptBuilder.open(snakemake.input.tokenizer, task, card["name"])
        auxiliary = builder.build(further)
        prompts = tested.vstack(auxiliary)
        scoring, anchors = snakemake.params.scoring, snakemake.params.anchors
        planned = {**spec, "anchors": anchors}
        model = open_for_job(
            snakemake.input.model, compute, snakemake.threads, prompts, cost, planned
        )
        tables = measure_reweighting(
            model, prompts, task["labels"], spec, compute["batch_tokens"], scoring, anchors
        )
        settings = {"reweighting": spec, "anchors": anchors, "task": task, "model": card}
        write_frame(snakemake.output.prompts, PROMPTS, auxiliary, settings)
        settings |= scoring
        for name, schema in SCHEMAS.items():
            write_frame(snakemake.output[name], schema, getattr(tables, name), settings)
