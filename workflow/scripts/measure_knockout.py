"""Predict with edges of attention cut, for every prompt of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.knockout import cost, measure_knockout, settings_of
from anchorflow.model.batches import among, first_texts, runnable
from anchorflow.schemas.knockout import KNOCKOUT
from anchorflow.schemas.prompts import PROMPTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        examples = cell.examples(prompts)
        run = among(first_texts(runnable(prompts, "fixed"), spec.get("examples")), examples)
        knockout = measure_knockout(
            cell.model(run, cost, spec),
            prompts,
            settings_of(spec["classes"], spec["layers"], spec["draws"], cell.card["layers"]),
            spec["variant"],
            spec["top_tokens"],
            cell.batch_tokens,
            examples,
            spec.get("examples"),
            cell.scoring,
        )
        cell.write(KNOCKOUT, knockout, cell.described(knockout=spec))
