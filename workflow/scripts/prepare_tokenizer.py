"""Save the tokenizer and the architecture of one model."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.prepare.tokenizer import resolve_tokenizer
from anchorflow.store.job import job

if __name__ == "__main__":
    with job(snakemake):
        resolve_tokenizer(snakemake.wildcards.model, snakemake.params.spec, snakemake.output[0])
