"""The table of loyalty under isolation."""

from anchorflow.analyses.isolation.schema import ISOLATION_SUMMARY
from anchorflow.analyses.isolation.summarize import summarize_isolation
from anchorflow.analyses.isolation.tabulate import tabulate_isolation
from anchorflow.statistics.accuracy_change import DETAILS
from constructed.interventions import isolation
from constructed.interventions import isolation_prompts as prompts


def test_the_table_has_a_row_per_way_to_isolate() -> None:
    table = tabulate_isolation(summarize_isolation(isolation(), prompts(), 0.95)).table
    measures = [name for name in ISOLATION_SUMMARY.measured if name not in DETAILS]
    assert table.columns == ["model", "variant", "layers", "side", "positions", *measures]
    assert table["positions"].to_list() == ["label", "random", "hidden"]
    assert table["label_loyalty"][0].startswith("0.50 [")
