"""Draw test texts and demonstrations of one task and seed."""

from anchorflow.logs import job_log
from anchorflow.samples import draw_samples
from anchorflow.tables import SAMPLES, TEXTS, read_table, write_frame

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        texts = read_table(snakemake.input.texts, TEXTS)
        samples = draw_samples(texts, int(snakemake.wildcards.seed), **snakemake.params.spec)
        write_frame(snakemake.output[0], SAMPLES, samples, snakemake.params.spec)
