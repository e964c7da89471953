"""Make an untrained twin of a model, and check our attention against eager attention."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

import torch

from anchorflow.prepare.untrained import make_untrained
from anchorflow.store.job import job

if __name__ == "__main__":
    with job(snakemake):
        torch.set_num_threads(snakemake.threads)
        make_untrained(
            snakemake.wildcards.kind,
            int(snakemake.wildcards.draw),
            snakemake.input.model,
            snakemake.input.tokenizer,
            snakemake.output[0],
        )
