"""Which tasks share label words."""

from anchorflow.config.cell_names import with_same_words

TASKS = {
    "reviews": {"labels": [" bad", " good"], "label_words": {"symbols": [" A", " B"]}},
    "topics": {"labels": [" B", " A"], "random_words": ["random"]},
    "poems": {"labels": [" sad"], "label_words": {"swapped": [" good", " bad"]}},
}


def test_another_task_with_the_same_words_in_any_order_is_found_under_its_name() -> None:
    assert with_same_words("topics", TASKS) == "reviews+symbols"
    assert with_same_words("reviews+symbols", TASKS) == "topics"
    assert with_same_words("reviews", TASKS) == "poems+swapped"
    assert with_same_words("poems", TASKS) is None


def test_drawn_and_shuffled_words_are_those_of_no_other_task() -> None:
    assert with_same_words("topics+random", TASKS) is None
    assert with_same_words("topics+shuffled", TASKS) is None
