"""Predict with isolated positions, for every prompt of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.isolation import cost, measure_isolation, settings_of
from anchorflow.model.batches import among, runnable
from anchorflow.schemas.isolation import ISOLATION
from anchorflow.schemas.prompts import PROMPTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        examples = cell.examples(prompts)
        settings = settings_of(
            spec["variants"],
            spec.get("layers"),
            spec["draws"],
            cell.card["layers"],
            cell.card["name"],
            spec["positions"],
        )
        isolation = measure_isolation(
            cell.model(among(runnable(prompts, "fixed"), examples), cost, spec),
            prompts,
            settings,
            spec["top_tokens"],
            cell.batch_tokens,
            examples,
            cell.scoring,
        )
        cell.write(ISOLATION, isolation, cell.described(isolation=spec))
