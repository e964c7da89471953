"""The table of perturbed texts, beside the published one."""

import pytest

from anchorflow.analyses.perturbations.summarize import summarize_perturbations
from anchorflow.analyses.perturbations.tabulate import tabulate_perturbations
from constructed.perturbations import tables_of, with_a_task_skipped_whole


def test_published_rows_follow_ours_and_say_whose_they_are() -> None:
    page = tabulate_perturbations(summarize_perturbations(**tables_of("news", 2), confidence=0.9))
    ours, published = (page.table.filter(model=name) for name in ("m", "[K], Table 1"))
    assert page.table.height == ours.height + published.height
    assert ours.filter(task="news")["perturbation"].to_list() == ["untouched", "typos"]
    assert ours.filter(task="news", perturbation="untouched")["agreement"].item() == "–"
    assert published.select("perturbation", "accuracy", "accuracy_change").rows() == [
        ("untouched", "0.805", "–"),
        ("typos", "0.534", "-0.271"),
        ("rare_words", "0.677", "-0.128"),
        ("complex", "0.788", "-0.017"),
    ]
    assert "whose texts GPT-3.5 rewrote: perturbations of the same names" in page.note


@pytest.mark.parametrize("left_out", [("typos", 3), ("untouched", 3)])
def test_skipped_texts_stand_behind_the_change_and_the_accuracy_that_lacks_them(
    left_out: tuple[str, int],
) -> None:
    summary = summarize_perturbations(**tables_of("news", 2, left_out), confidence=0.9)
    row = tabulate_perturbations(summary).table.filter(task="news", perturbation="typos")
    assert row["accuracy_change"].item().endswith(" (2 skipped)")
    assert ("skipped" in row["accuracy"].item()) == (left_out[0] == "typos")


def test_a_task_skipped_whole_keeps_its_rows() -> None:
    table = tabulate_perturbations(with_a_task_skipped_whole()).table.filter(model="m")
    named = [
        (task, name) for task in ("news", "long", "average") for name in ("untouched", "typos")
    ]
    assert table.select("task", "perturbation").rows() == named
    assert table.filter(task="long", perturbation="typos")["accuracy"].item() == "– (4 skipped)"
