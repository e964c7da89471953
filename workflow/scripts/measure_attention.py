"""Measure attention to every demonstration and predictions, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.attention import cost, measure_attention
from anchorflow.measure.cell import measuring
from anchorflow.model.batches import among, runnable
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.schemas.attention import ATTENTION
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        prompts = cell.read("prompts", PROMPTS)
        examples = cell.examples(prompts)
        attention, predictions = measure_attention(
            cell.model(among(runnable(prompts, "fixed"), examples), cost),
            open_tokenizer(snakemake.input.tokenizer),
            prompts,
            cell.batch_tokens,
            examples,
            cell.scoring,
        )
        cell.write(ATTENTION, attention, cell.described(), "attention")
        cell.write(PREDICTIONS, predictions, cell.described(), "predictions")
