"""Predict with isolated positions, for every prompt of one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.isolation import cost, measure_isolation, settings_of
from anchorflow.model.batches import among, runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.schemas.isolation import ISOLATION
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        examples = examples_of(snakemake.wildcards.get("examples"), prompts)
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        card = read_card(snakemake.input.model)
        settings = settings_of(
            spec["variants"],
            spec.get("layers"),
            spec["draws"],
            card["layers"],
            card["name"],
            spec["positions"],
        )
        run = among(runnable(prompts, "fixed"), examples)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost, spec)
        scoring = snakemake.params.scoring
        isolation = measure_isolation(
            model, prompts, settings, spec["top_tokens"], compute["batch_tokens"], examples, scoring
        )
        described = {"isolation": spec, **scoring, "model": card}
        write_frame(snakemake.output[0], ISOLATION, isolation, described)
