"""Predict without demonstrations from some layer on, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.cutoff import cost, measure_cutoff, settings_of
from anchorflow.model.batches import among, first_texts, runnable
from anchorflow.schemas.cutoff import CUTOFF
from anchorflow.schemas.prompts import PROMPTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        examples = cell.examples(prompts)
        run = among(first_texts(runnable(prompts, "fixed"), spec.get("examples")), examples)
        cutoff = measure_cutoff(
            cell.model(run, cost, spec),
            prompts,
            settings_of(spec["sees"], spec["draws"], spec["every"], cell.card["layers"]),
            spec["top_tokens"],
            cell.batch_tokens,
            examples,
            spec.get("examples"),
            cell.scoring,
        )
        cell.write(CUTOFF, cutoff, cell.described(cutoff=spec))
