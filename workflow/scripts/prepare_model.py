"""Prepare one model's weights and check our attention against eager attention."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

import torch

from anchorflow.prepare.model import resolve_model
from anchorflow.store.job import job

if __name__ == "__main__":
    with job(snakemake):
        torch.set_num_threads(snakemake.threads)
        resolve_model(
            snakemake.wildcards.model,
            snakemake.params.spec,
            snakemake.input.tokenizer,
            snakemake.output[0],
        )
