"""Tiny runs of knockout, for the tests of shards, of memory, and of cost."""

from anchorflow.analyses.knockout import measure as knockout
from anchorflow.analyses.knockout.measure import measure_knockout
from anchorflow.analyses.knockout.measure import settings_of as cuts_of
from tiny_cells import TABLE, Limited, Tables, double_model, prompts_of_cell

CUTS = {"classes": ["label_to_target", "text_to_label"], "layers": ["thirds"], "draws": 1}


def sharded(examples: list[int] | None, batch_tokens: int) -> Tables:
    classes = ("label_to_target", "text_to_label", "demonstrations_to_query", "first_to_all")
    settings = cuts_of(classes, ["single", "all"], 2, 3)
    prompts = prompts_of_cell()
    rows = measure_knockout(double_model(), prompts, settings, "mask", 4, batch_tokens, examples)
    return {"knockout": rows}


SHARDED = {"knockout": sharded}
LIMITED: dict[str, Limited] = {
    "knockout": lambda model, table: measure_knockout(
        model, table, cuts_of(["label_to_target", "text_to_label"], ["all"], 1, 3), "mask", 4, 1000
    )
}
LIMITED_HEAD = {"knockout": LIMITED["knockout"]}
COUNTED = {
    "knockout": (
        knockout,
        CUTS,
        lambda m: knockout.measure_knockout(
            m, TABLE, knockout.settings_of(**CUTS, depth=3), "mask", 4, 1000
        ),
    )
}
