"""Save the tokenizer and the architecture of one model."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.model.cost import log_run
from anchorflow.prepare.tokenizer import resolve_tokenizer
from anchorflow.store.job import job

if __name__ == "__main__":
    with job(snakemake):
        model, folder = snakemake.wildcards.model, snakemake.output[0]
        resolve_tokenizer(model, snakemake.params.spec, folder)
        log_run(snakemake.config, model, folder)
