"""The table of chosen demonstrations, which says what was skipped."""

import pytest

from anchorflow.summarize.neighbors import summarize_neighbors
from anchorflow.tabulate.neighbors import tabulate_neighbors
from constructed.neighbors import ANSWERS, prompts_of, rows_of, with_a_task_skipped_whole


@pytest.mark.parametrize("left_out", [("nearest", 3), ("random", 3)])
def test_skipped_examples_stand_behind_the_gain_and_the_choice_that_skips_them(
    left_out: tuple[str, int],
) -> None:
    summary = summarize_neighbors(
        rows_of("news", 2, left_out), *prompts_of("news", 2, left_out), 0.9
    )
    table = tabulate_neighbors(summary).table.filter(task="news", choice="nearest")
    assert table["accuracy_gain"].item().endswith(" (2 skipped)")
    assert ("skipped" in table["accuracy"].item()) == (left_out[0] == "nearest")


def test_a_task_skipped_whole_with_one_choice_keeps_its_rows() -> None:
    table = tabulate_neighbors(with_a_task_skipped_whole()).table
    pairs = [(task, choice) for task in ("news", "long", "average") for choice in ANSWERS]
    assert table.select("task", "choice").rows() == pairs
    assert table.filter(task="long", choice="nearest")["accuracy"].item() == "– (4 skipped)"
    assert table.filter(task="news", choice="random")["accuracy_gain"].item() == "–"
