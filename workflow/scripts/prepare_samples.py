"""Draw test texts and demonstrations of one task and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.prepare.samples import draw_samples
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        texts = read_table(snakemake.input.texts, TEXTS)
        samples = draw_samples(texts, int(snakemake.wildcards.seed), **snakemake.params.spec)
        write_frame(snakemake.output[0], SAMPLES, samples, snakemake.params.spec)
