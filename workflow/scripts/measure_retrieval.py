"""Predict with chosen training texts as demonstrations, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.config.shards import examples_of
from anchorflow.measure.retrieval import cost, describe_demonstrations, measure_retrieval
from anchorflow.model.batches import among
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.retrieval_samples import choose_demonstrations, texts_for
from anchorflow.schemas.embeddings import EMBEDDINGS
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.retrieval import RETRIEVAL
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.job import job
from anchorflow.store.parquet import read_settings, read_table, write_frame

if __name__ == "__main__":
    with job(snakemake):
        spec, task = snakemake.params.spec, snakemake.params.task
        compute, card = snakemake.config["compute"], read_card(snakemake.input.model)
        fixed = read_table(snakemake.input.samples, SAMPLES).filter(demonstrations="fixed")
        examples = examples_of(snakemake.wildcards.get("examples"), fixed)
        many = len(fixed["demonstration_rows"][0])  # a shard may have no test text
        fixed = among(fixed, examples)
        embeddings = read_table(snakemake.input.embeddings, EMBEDDINGS)
        texts = read_table(snakemake.input.texts, TEXTS)
        other, of_other = None, None
        if "other" in spec:
            read = read_table(snakemake.input.other_texts, TEXTS)
            fields = task["fields"], spec["other"]["fields"]
            other = texts_for(texts, read, *fields, many)
            of_other = read_table(snakemake.input.other_embeddings, EMBEDDINGS)
        samples = choose_demonstrations(
            texts, fixed, embeddings, spec["choices"], task["labels"], other
        )
        prompts = PromptBuilder.open(
            snakemake.input.tokenizer, task, card["name"], snakemake.wildcards.task
        ).build(samples)
        predictions = measure_retrieval(
            open_for_job(snakemake.input.model, compute, snakemake.threads, prompts, cost, spec),
            prompts,
            among(read_table(snakemake.input.predictions, PREDICTIONS), examples),
            describe_demonstrations(fixed.vstack(samples), embeddings, of_other),
            compute["batch_tokens"],
            snakemake.params.scoring,
        )
        chosen = {
            "retrieval": spec,
            "encoder": read_settings(snakemake.input.embeddings)["encoder"],
        }
        settings = {**chosen, "task": task, "model": card}
        write_frame(snakemake.output.samples, SAMPLES, samples, chosen)
        write_frame(snakemake.output.prompts, PROMPTS, prompts, settings)
        scored = {**settings, **snakemake.params.scoring}
        write_frame(snakemake.output.predictions, RETRIEVAL, predictions, scored)
