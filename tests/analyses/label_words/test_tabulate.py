"""The table of other label words."""

from anchorflow.analyses.label_words.tabulate import tabulate_label_words
from constructed.label_words import summary


def test_the_table_has_a_row_per_task_and_words() -> None:
    table = tabulate_label_words(summary()).table
    assert table.select("task", "words").rows() == [
        ("mine", "words"),
        ("mine", "symbols"),
        ("mine", "permuted"),
        ("news", "words"),
        ("news", "symbols"),
        ("average", "words"),
        ("average", "symbols"),
        ("average", "permuted"),
    ]
    assert table["follows_meaning"].to_list()[:2] == ["–", "–"]
    assert table["auc_late"][1] == "0.00"
    assert table["accuracy"][0].startswith("0.62 [")
