"""Measure saliency of edges that are cut, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.faithfulness import cost, measure_faithfulness
from anchorflow.model.batches import among, first_texts, runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.schemas.faithfulness import FAITHFULNESS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        card = read_card(snakemake.input.model)
        run = among(first_texts(runnable(prompts, "fixed"), spec.get("examples")), examples)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost, spec)
        faithfulness = measure_faithfulness(
            model,
            prompts,
            spec["classes"],
            spec["draws"],
            spec["steps"],
            compute["batch_tokens"],
            examples,
            spec.get("examples"),
        )
        write_frame(
            snakemake.output[0], FAITHFULNESS, faithfulness, {"faithfulness": spec, "model": card}
        )
