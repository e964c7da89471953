"""The table of loyalty under isolation."""

from anchorflow.summarize.loyalty import MEASURES, summarize_loyalty
from anchorflow.tabulate.loyalty import tabulate_loyalty
from constructed.loyalty import isolation, prompts


def test_the_table_has_a_row_per_way_to_isolate() -> None:
    table = tabulate_loyalty(summarize_loyalty(isolation(), prompts(), 0.95)).table
    assert table.columns == ["model", "variant", "layers", "side", "positions", *MEASURES]
    assert table["positions"].to_list() == ["label", "random"]
    assert table["label_loyalty"][0].startswith("0.50 [")
