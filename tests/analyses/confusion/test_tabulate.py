"""The table of confused labels and key distances."""

from anchorflow.analyses.confusion.tabulate import tabulate_confusion
from constructed.confusion import of_two_labels


def test_a_run_without_three_labels_still_has_a_table() -> None:
    assert tabulate_confusion(of_two_labels()).table["average"].to_list() == ["–", "–"]
