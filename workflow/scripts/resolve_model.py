"""Make one model's weights ready and check them against eager attention."""

import torch

from anchorflow.logs import job_log
from anchorflow.models import resolve_model

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        torch.set_num_threads(snakemake.threads)
        resolve_model(
            snakemake.wildcards.model,
            snakemake.params.spec,
            snakemake.input.tokenizer,
            snakemake.output[0],
        )
