"""Predict with chosen training texts as demonstrations, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.retrieval import cost, describe_demonstrations, measure_retrieval
from anchorflow.model.batches import among
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.retrieval_samples import choose_demonstrations, texts_for
from anchorflow.schemas.embeddings import EMBEDDINGS
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.retrieval import RETRIEVAL
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.parquet import read_settings

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        spec, task = cell.spec, cell.task
        fixed = cell.read("samples", SAMPLES).filter(demonstrations="fixed")
        examples = cell.examples(fixed)
        many = len(fixed["demonstration_rows"][0])  # a shard may have no test text
        fixed = among(fixed, examples)
        embeddings, texts = cell.read("embeddings", EMBEDDINGS), cell.read("texts", TEXTS)
        other, of_other = None, None
        if "other" in spec:
            fields = task["fields"], spec["other"]["fields"]
            other = texts_for(texts, cell.read("other_texts", TEXTS), *fields, many)
            of_other = cell.read("other_embeddings", EMBEDDINGS)
        samples = choose_demonstrations(
            texts, fixed, embeddings, spec["choices"], task["labels"], other
        )
        prompts = PromptBuilder.open(
            snakemake.input.tokenizer, task, cell.card["name"], snakemake.wildcards.task
        ).build(samples)
        predictions = measure_retrieval(
            cell.model(prompts, cost, cell.spec),
            prompts,
            among(cell.read("predictions", PREDICTIONS), examples),
            describe_demonstrations(fixed.vstack(samples), embeddings, of_other),
            cell.batch_tokens,
            cell.scoring,
        )
        encoder = read_settings(snakemake.input.embeddings)["encoder"]
        chosen = {"retrieval": spec, "encoder": encoder}
        settings = {**chosen, "task": task, "model": cell.card}
        cell.write(SAMPLES, samples, chosen, "samples")
        cell.write(PROMPTS, prompts, settings, "prompts")
        cell.write(RETRIEVAL, predictions, {**settings, **cell.scoring}, "predictions")
