"""Measure saliency between all tokens of the prompts of one cell that are shown as a page."""

from anchorflow.language_model import open_for_job, read_card
from anchorflow.logs import job_log
from anchorflow.tables import PROMPTS, SHOWN_PROMPTS, TOKEN_SALIENCY, read_table, write_frame
from anchorflow.token_saliency import measure_token_saliency
from anchorflow.tokenizer_files import open_tokenizer

if __name__ == "__main__":
    with job_log(snakemake.log[0], snakemake.input):
        spec, compute = snakemake.params.spec, snakemake.config["compute"]
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        tokenizer = open_tokenizer(snakemake.input.tokenizer)
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, prompts, True)
        saliency, shown = measure_token_saliency(model, tokenizer, prompts, **spec)
        settings = {"shown": spec, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output.saliency, TOKEN_SALIENCY, saliency, settings)
        write_frame(snakemake.output.shown, SHOWN_PROMPTS, shown, settings)
