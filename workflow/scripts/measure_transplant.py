"""Predict with vectors taken from other prompts, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.transplant import cost, measure_transplant, settings_of
from anchorflow.model.batches import among, first_texts, runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.transplant import TRANSPLANT
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
        transplant = measure_transplant(
            model,
            prompts,
            settings_of(
                spec["places"],
                spec["donors"],
                spec["what"],
                spec["depths"],
                spec["draws"],
                card["layers"],
            ),
            compute["batch_tokens"],
            examples,
            spec.get("examples"),
            snakemake.params.scoring,
        )
        described = {"transplant": spec, **snakemake.params.scoring, "model": card}
        write_frame(snakemake.output[0], TRANSPLANT, transplant, described)
