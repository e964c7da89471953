"""Perturb the test texts of one task and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

import polars as pl

from anchorflow.analyses.perturbations.schema import PERTURBED_TEXTS, RARE_WORDS
from anchorflow.analyses.perturbations.texts import perturb_texts
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.job import job
from anchorflow.store.parquet import read_settings, read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, file = snakemake.params.spec, snakemake.input.rare_words
        samples = read_table(snakemake.input.samples, SAMPLES).filter(demonstrations="fixed")
        settings = {"perturbations": spec}
        rare_words = pl.DataFrame(schema=frame_schema(RARE_WORDS))
        if file:
            rare_words = read_table(file, RARE_WORDS)
            settings |= {"encoder": read_settings(file)["encoder"]}
        texts = perturb_texts(samples, spec, rare_words)
        write_frame(snakemake.output[0], PERTURBED_TEXTS, texts, settings)
