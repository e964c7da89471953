"""List all artifacts of the run with their checksums."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.store.job import job
from anchorflow.store.manifest import write_manifest

if __name__ == "__main__":
    with job(snakemake):
        params = snakemake.params
        write_manifest(snakemake.input.finished, params.run, params.nulls, snakemake.output[0])
