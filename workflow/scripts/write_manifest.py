"""List all artifacts of the run with their checksums."""

from anchorflow.store.job import job
from anchorflow.store.manifest import write_manifest

if __name__ == "__main__":
    with job(snakemake):
        write_manifest(snakemake.input.finished, snakemake.params.run, snakemake.output[0])
