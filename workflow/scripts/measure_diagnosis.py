"""Measure distances between the label words' keys, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.diagnosis import cost, measure_diagnosis
from anchorflow.model.batches import runnable
from anchorflow.schemas.diagnosis import DIAGNOSIS
from anchorflow.schemas.prompts import PROMPTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        model = cell.model(runnable(prompts, "fixed"), cost)
        diagnosis = measure_diagnosis(model, prompts, spec["components"], cell.batch_tokens)
        cell.write(DIAGNOSIS, diagnosis, cell.described(diagnosis=spec))
