"""Predict with vectors taken from other prompts, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.transplant import cost, measure_transplant, settings_of
from anchorflow.model.batches import among, first_texts, runnable
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.transplant import TRANSPLANT

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        examples = cell.examples(prompts)
        run = among(first_texts(runnable(prompts, "fixed"), spec.get("examples")), examples)
        keys = ("places", "donors", "what", "depths", "draws")
        transplant = measure_transplant(
            cell.model(run, cost, spec),
            prompts,
            settings_of(*(spec[key] for key in keys), cell.card["layers"]),
            cell.batch_tokens,
            examples,
            spec.get("examples"),
            cell.scoring,
        )
        cell.write(TRANSPLANT, transplant, cell.described(transplant=spec))
