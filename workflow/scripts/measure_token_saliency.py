"""Measure saliency between all tokens of single prompts, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.token_saliency import cost, measure_token_saliency
from anchorflow.model.batches import first_texts, runnable
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.token_saliency import SHOWN_KNOCKOUTS, SHOWN_PROMPTS, TOKEN_SALIENCY
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec = snakemake.params.spec
        compute = {**snakemake.config["compute"], "batch_tokens": 1}  # one prompt at a time
        prompts = read_table(snakemake.input.prompts, PROMPTS)
        tokenizer = open_tokenizer(snakemake.input.tokenizer)
        run = first_texts(runnable(prompts, spec["demonstrations"]), spec["examples"])
        model = open_for_job(snakemake.input.model, compute, snakemake.threads, run, cost, spec)
        saliency, shown, cuts = measure_token_saliency(model, tokenizer, prompts, **spec)
        settings = {"shown": spec, "model": read_card(snakemake.input.model)}
        write_frame(snakemake.output.saliency, TOKEN_SALIENCY, saliency, settings)
        write_frame(snakemake.output.shown, SHOWN_PROMPTS, shown, settings)
        write_frame(snakemake.output.cuts, SHOWN_KNOCKOUTS, cuts, settings)
