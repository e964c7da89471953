"""Measure S_wp, S_pq, and S_ww of every layer, for every prompt of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.saliency import cost, measure_saliency
from anchorflow.model.batches import among, runnable
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.saliency import SALIENCY

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        examples = cell.examples(prompts)
        run = among(runnable(prompts, spec["demonstrations"]), examples)
        model = cell.model(run, cost, spec)
        saliency = measure_saliency(model, prompts, cell.batch_tokens, **spec, examples=examples)
        cell.write(SALIENCY, saliency, cell.described(saliency=spec))
