"""Time queries with full prompts and compressed demonstrations, for one model and task."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.timing import cost, measure_timing
from anchorflow.model.batches import runnable
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.timing import TIMING

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        run = runnable(prompts, "fixed")[: spec["queries"]]
        timing = measure_timing(cell.model(run, cost, spec), prompts, spec)
        cell.write(TIMING, timing, cell.described(timing=spec))
