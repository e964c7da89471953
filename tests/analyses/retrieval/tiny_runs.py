"""Tiny runs of retrieval, for the tests of shards, of memory, and of cost."""

import polars as pl

from anchorflow.analyses.retrieval.measure import measure_retrieval
from anchorflow.model.batches import among
from constructed.corpus import cell_prompts, described, random_predictions
from tiny_cells import LENGTHS, Limited, Tables, called, double_model

PREDICTED = pl.DataFrame({"example": [0], "label": [1], "prediction": [1]}).with_columns(
    probabilities=pl.lit([0.2, 0.5, 0.3]), label_mass=pl.lit(0.5), in_labels=pl.lit(True)
)
DESCRIBED = pl.DataFrame({"choice": ["random"], "example": [0]}).with_columns(
    similarity=pl.lit(0.5), same_label=pl.lit(0.5)
)


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    every = list(range(len(LENGTHS)))
    prompts, random = cell_prompts(LENGTHS), random_predictions(every)
    shown = described(prompts, every)
    rows = measure_retrieval(
        double_model(), among(prompts, examples), among(random, examples), shown, batch_tokens
    )
    return {"retrieval": rows}


SHARDED = {"retrieval": sharded}
LIMITED: dict[str, Limited] = {
    "retrieval": lambda model, table: measure_retrieval(
        model, called(table, "nearest"), PREDICTED, DESCRIBED, 1000
    )
}
