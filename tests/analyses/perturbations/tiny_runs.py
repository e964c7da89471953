"""Tiny runs of perturbations, for the tests of shards, of memory, and of cost."""

import polars as pl

from anchorflow.analyses.perturbations.measure import measure_perturbations
from constructed.corpus import perturbed_prompts, untouched_predictions
from tiny_cells import APART, LENGTHS, Limited, Tables, called, double_model

PREDICTED = pl.DataFrame({"example": [0], "label": [1], "prediction": [1]}).with_columns(
    probabilities=pl.lit([0.2, 0.5, 0.3]), label_mass=pl.lit(0.5), in_labels=pl.lit(True)
)


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    prompts = perturbed_prompts(LENGTHS)
    ids = prompts["token_ids"].to_list()
    ids[APART][29] += 1
    rows = measure_perturbations(
        double_model(),
        prompts.with_columns(pl.Series("token_ids", ids)),
        untouched_predictions(list(range(len(LENGTHS)))),
        batch_tokens,
        examples,
    )
    return {"perturbations": rows}


SHARDED = {"perturbations": sharded}
LIMITED: dict[str, Limited] = {
    "perturbations": lambda model, table: measure_perturbations(
        model, called(table, "typos"), PREDICTED, 1000
    )
}
