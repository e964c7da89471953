"""Measure saliency between all tokens of single prompts, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.token_saliency import cost, measure_token_saliency
from anchorflow.model.batches import first_texts, runnable
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.token_saliency import SHOWN_KNOCKOUTS, SHOWN_PROMPTS, TOKEN_SALIENCY

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, prompts = cell.spec, cell.read("prompts", PROMPTS)
        tokenizer = open_tokenizer(snakemake.input.tokenizer)
        run = first_texts(runnable(prompts, spec["demonstrations"]), spec["examples"])
        model = cell.model(run, cost, spec, batch_tokens=1)  # one prompt at a time
        saliency, shown, cuts = measure_token_saliency(model, tokenizer, prompts, **spec)
        settings = cell.described(shown=spec)
        cell.write(TOKEN_SALIENCY, saliency, settings, "saliency")
        cell.write(SHOWN_PROMPTS, shown, settings, "shown")
        cell.write(SHOWN_KNOCKOUTS, cuts, settings, "cuts")
