"""The table of where attention lands."""

from anchorflow.analyses.landing.tabulate import tabulate_landing
from constructed.kernel import landing_summary


def test_the_table_has_a_row_per_layer_and_one_of_tokens() -> None:
    rows = tabulate_landing(landing_summary()).table
    assert rows["layer"].to_list() == ["0", "1", "tokens"]
    assert rows["label"][0].startswith("0.40 [")
    assert rows["text"][2].startswith("0.67 [")
