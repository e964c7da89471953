"""Random demonstrations beside texts of another task, and beside shuffled labels, by hand."""

import pytest

from anchorflow.schemas.retrieval import RETRIEVAL
from anchorflow.summarize.verdicts import INCONCLUSIVE, SUPPORTED
from constructed.claims import WITH_CONTROL, Tables, answered, expect, judged

CLAIM = "in_distribution_helps"
# With random demonstrations, the model gets three texts of four right.
RIGHT = {"holds": 1, "even": 3, "fails": 4}
EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.25}


def tables_of(**right: int) -> Tables:
    return {"retrieval": answered({"random": 3, **right}, "choice", RETRIEVAL)}


@pytest.mark.parametrize(*WITH_CONTROL)
def test_in_distribution_helps(own: str, control: str, verdict: str, reason: str | None) -> None:
    tables = tables_of(other_task=RIGHT[own], random_labels=RIGHT[control])
    expect(judged(CLAIM, tables), EFFECTS[own], verdict, reason, EFFECTS[control])


def test_what_wrong_labels_cost_by_themselves_is_not_counted_for_the_texts() -> None:
    found = judged(CLAIM, tables_of(other_task=0, random_labels=2))
    expect(found, 0.75, SUPPORTED, None, 0.25)
    found = judged(CLAIM, tables_of(other_task=2, random_labels=0))
    assert found["reason"] == "also true of its control"


def test_without_shuffled_labels_there_is_an_effect_and_no_verdict() -> None:
    found = judged(CLAIM, tables_of(other_task=1))
    assert (found["effect"], found["verdict"]) == (0.5, INCONCLUSIVE)
    assert found["reason"].startswith("its control was not measured: no example was run with both")


def test_without_texts_of_another_task_nothing_is_compared() -> None:
    found = judged(CLAIM, tables_of(random_labels=1))
    assert found["verdict"] == "not tested"
    assert found["reason"].startswith("no example was run with both random and other_task")
