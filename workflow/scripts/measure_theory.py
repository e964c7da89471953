"""Compare kernel regression with exact Bayesian inference in random worlds."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.theory import measure_theory
from anchorflow.schemas.theory import THEORY
from anchorflow.store.job import job
from anchorflow.store.parquet import write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec = snakemake.params.spec
        write_frame(snakemake.output[0], THEORY, measure_theory(spec), {"theory": spec})
