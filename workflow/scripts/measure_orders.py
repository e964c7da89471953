"""Predict with demonstrations in several orders, for one model, task, and seed."""

from anchorflow.store.fork_server import continue_in_fork

continue_in_fork(snakemake)

from anchorflow.measure.cell import measuring
from anchorflow.measure.orders import cost, measure_orders
from anchorflow.model.batches import among
from anchorflow.prepare.orders import build_arranged
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.orders import ORDERS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.parquet import read_settings

if __name__ == "__main__":
    with measuring(snakemake) as cell:
        orders, wildcards = snakemake.params.orders, snakemake.wildcards
        examples = cell.examples(cell.read("samples", SAMPLES))
        prompts = build_arranged(
            cell.read("kernel", SAMPLES),
            cell.read("texts", TEXTS),
            orders,
            PromptBuilder.open(
                snakemake.input.tokenizer, cell.task, cell.card["name"], wildcards.task
            ),
        )
        run = among(prompts, examples)
        predictions = measure_orders(
            cell.model(run, cost, {"count": orders}), prompts, cell.batch_tokens, examples
        )
        settings = {**read_settings(snakemake.input.kernel), "orders": orders}
        cell.write(PROMPTS, run, settings, "prompts")
        cell.write(ORDERS, predictions, settings, "predictions")
