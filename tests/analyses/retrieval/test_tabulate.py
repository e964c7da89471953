"""The table of chosen demonstrations."""

import pytest

from anchorflow.analyses.retrieval.summarize import summarize_retrieval
from anchorflow.analyses.retrieval.tabulate import tabulate_retrieval
from constructed.retrieval import ANSWERS, prompts_of, rows_of, with_a_task_skipped_whole


@pytest.mark.parametrize("left_out", [("nearest", 3), ("random", 3)])
def test_skipped_examples_stand_behind_the_gain_and_the_choice_that_skips_them(
    left_out: tuple[str, int],
) -> None:
    summary = summarize_retrieval(
        rows_of("news", 2, left_out), *prompts_of("news", 2, left_out), 0.9
    )
    table = tabulate_retrieval(summary).table.filter(task="news", choice="nearest")
    assert table["accuracy_gain"].item().endswith(" (2 skipped)")
    assert ("skipped" in table["accuracy"].item()) == (left_out[0] == "nearest")


def test_a_task_skipped_whole_with_one_choice_keeps_its_rows() -> None:
    table = tabulate_retrieval(with_a_task_skipped_whole()).table
    pairs = [(task, choice) for task in ("news", "long", "average") for choice in ANSWERS]
    assert table.select("task", "choice").rows() == pairs
    assert table.filter(task="long", choice="nearest")["accuracy"].item() == "– (4 skipped)"
    assert table.filter(task="news", choice="random")["accuracy_gain"].item() == "–"
