"""The table of layers that need the demonstrations."""

from anchorflow.analyses.cutoff.summarize import summarize_cutoff
from anchorflow.analyses.cutoff.tabulate import tabulate_cutoff
from constructed.interventions import cutoff, prompts

PLAIN = [1, 1, 0, 0]


def test_the_table_says_how_many_layers_need_them() -> None:
    table = {"first": [[0, 0, 1, 1], PLAIN, PLAIN], "label": [PLAIN] * 3}
    page = tabulate_cutoff(summarize_cutoff(cutoff(table, PLAIN), prompts(), 0.95))
    assert page.table.filter(page.table["task"] == "news").select("first", "label").row(0) == (
        "1.00 [1.00, 1.00]",
        "0.00 [0.00, 0.00]",
    )
