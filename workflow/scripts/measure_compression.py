"""Predict from compressed demonstrations, for every prompt of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.compression import ANCHOR, FULL, cost, measure_compression
from anchorflow.measure.reweighting import beta_of
from anchorflow.model.batches import among
from anchorflow.schemas.compression import COMPRESSION
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.reweighting import BETA

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts, betas = cell.spec, cell.read("prompts", PROMPTS), {}
        if snakemake.input.training:  # not for untrained twins
            prompts = prompts.vstack(cell.read("training", PROMPTS))
        for cache, name in ((FULL, "beta"), (ANCHOR, "beta_anchor")):
            if snakemake.input[name]:
                betas[cache] = beta_of(cell.read(name, BETA))
        examples = cell.examples(prompts)
        run = among(prompts.filter(demonstrations="fixed"), examples)
        compression = measure_compression(
            cell.model(run, cost, spec),
            prompts,
            betas,
            spec,
            cell.batch_tokens,
            examples,
            cell.scoring,
        )
        cell.write(COMPRESSION, compression, cell.described(compression=spec))
