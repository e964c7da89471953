"""The table of where attention lands."""

from anchorflow.tabulate.landing import tabulate_landing
from constructed.landing import summary


def test_the_table_has_a_row_per_layer_and_one_of_tokens() -> None:
    rows = tabulate_landing(summary()).table
    assert rows["layer"].to_list() == ["0", "1", "tokens"]
    assert rows["label"][0].startswith("0.40 [")
    assert rows["text"][2].startswith("0.67 [")
