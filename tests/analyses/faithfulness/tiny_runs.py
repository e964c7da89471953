"""Tiny runs of faithfulness, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.faithfulness import measure as faithfulness
from anchorflow.analyses.faithfulness.measure import measure_faithfulness
from tiny_cells import TABLE, Limited, Tables, double_model, prompts_of_cell


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    classes, prompts = ("label_to_target", "text_to_label"), prompts_of_cell()
    how = (classes, 2, 2, batch_tokens, examples, ["label"])
    rows = measure_faithfulness(double_model(), prompts, *how)
    return {"faithfulness": rows}


SHARDED = {"faithfulness": sharded}
LIMITED: dict[str, Limited] = {
    "faithfulness": lambda model, table: measure_faithfulness(
        model, table, ["label_to_target"], 1, 1, 1000
    )
}
COUNTED = {
    "faithfulness": (
        faithfulness,
        {"steps": 2, "transplants": ["label"]},
        lambda m: faithfulness.measure_faithfulness(
            m, TABLE, ["label_to_target"], 1, 2, 1000, None, ["label"]
        ),
    )
}
