"""List all artifacts of the run with their checksums."""

from anchorflow.logs import job_log
from anchorflow.manifest import write_manifest

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        write_manifest(snakemake.input.finished, snakemake.params.run, snakemake.output[0])
