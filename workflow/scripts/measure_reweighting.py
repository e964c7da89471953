"""Fit β and predict with it and with its baselines, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.baselines import draw_inputs
from anchorflow.measure.cell import measuring
from anchorflow.measure.reweighting import SCHEMAS, cost, measure_reweighting
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.reweighting_samples import draw_auxiliary
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, task, anchors = cell.spec, cell.task, snakemake.params.anchors
        samples, tested = cell.read("samples", SAMPLES), cell.read("prompts", PROMPTS)
        further = draw_auxiliary(
            cell.read("texts", TEXTS),
            samples,
            task["labels"],
            spec["examples_per_label"],
            task["many_demonstrations"],
            draw_inputs(spec["baselines"], samples, tested, len(task["fields"])),
        )
        builder = PromptBuilder.open(snakemake.input.tokenizer, task, cell.card["name"])
        auxiliary = builder.build(further)
        prompts = tested.vstack(auxiliary)
        tables = measure_reweighting(
            cell.model(prompts, cost, {**spec, "anchors": anchors}),
            prompts,
            task["labels"],
            spec,
            cell.batch_tokens,
            cell.scoring,
            anchors,
        )
        settings = {"reweighting": spec, "anchors": anchors, "task": task, "model": cell.card}
        cell.write(PROMPTS, auxiliary, settings, "prompts")
        for name, schema in SCHEMAS.items():
            cell.write(schema, getattr(tables, name), {**settings, **cell.scoring}, name)
