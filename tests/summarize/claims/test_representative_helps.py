"""Representative beside random demonstrations, and beside outlying ones, by hand."""

import pytest

from anchorflow.schemas.retrieval import RETRIEVAL
from anchorflow.summarize.verdicts import INCONCLUSIVE
from constructed.claims import WITH_CONTROL, Tables, answered, expect, judged

CLAIM = "representative_helps"
# With random demonstrations, the model gets one text of four right.
RIGHT = {"holds": 3, "even": 1, "fails": 0}
EFFECTS = {"holds": 0.5, "even": 0.0, "fails": -0.25}


def tables_of(**right: int) -> Tables:
    return {"retrieval": answered({"random": 1, **right}, "choice", RETRIEVAL)}


@pytest.mark.parametrize(*WITH_CONTROL)
def test_representative_helps(own: str, control: str, verdict: str, reason: str | None) -> None:
    tables = tables_of(representative=RIGHT[own], outlying=RIGHT[control])
    expect(judged(CLAIM, tables), EFFECTS[own], verdict, reason, EFFECTS[control])


def test_without_outlying_ones_there_is_an_effect_and_no_verdict() -> None:
    found = judged(CLAIM, tables_of(representative=3))
    assert (found["effect"], found["verdict"]) == (0.5, INCONCLUSIVE)
    assert found["reason"].startswith("its control was not measured: no example was run with both")


def test_without_representative_ones_nothing_is_compared() -> None:
    found = judged(CLAIM, tables_of(outlying=3))
    assert found["verdict"] == "not tested"
    assert found["reason"].startswith("no example was run with both representative and random")
