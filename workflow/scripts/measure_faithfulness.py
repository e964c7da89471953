"""Measure saliency of edges that are cut, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.faithfulness import cost, measure_faithfulness
from anchorflow.model.batches import among, first_texts, runnable
from anchorflow.schemas.faithfulness import FAITHFULNESS
from anchorflow.schemas.prompts import PROMPTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        examples = cell.examples(prompts)
        run = among(first_texts(runnable(prompts, "fixed"), spec.get("examples")), examples)
        faithfulness = measure_faithfulness(
            cell.model(run, cost, spec),
            prompts,
            spec["classes"],
            spec["draws"],
            spec["steps"],
            cell.batch_tokens,
            examples,
            spec.get("examples"),
        )
        cell.write(FAITHFULNESS, faithfulness, cell.described(faithfulness=spec))
