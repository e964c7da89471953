"""Save the tokenizer and the architecture of one model."""

from anchorflow.logs import job_log
from anchorflow.tokenizers import resolve_tokenizer

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        resolve_tokenizer(snakemake.wildcards.model, snakemake.params.spec, snakemake.output[0])
