"""Time behind the anchors beside full prompts and a full cache: quartiles decide, in every task."""

from collections.abc import Sequence

import polars as pl
import pytest

from anchorflow.schemas.timing import TIMING
from constructed.claims import Tables, frame, judged, of_claim, summarize

# Lower quartile, median, and upper quartile, in ms.
QUICK, SLOW = (4, 5, 6), (9, 10, 11)
COMPARED = {"compression_is_faster": "full_prompt", "anchors_faster_than_full_cache": "full"}


def timed(
    claim: str, anchors: Sequence[float], other: Sequence[float], task: str = "news"
) -> Tables:
    """Timings of the anchors and of what they are compared with."""
    rows = [
        {"model": "tiny", "task": task, "seed": 0, "way": way, "runs": 8}
        | dict(zip(("low", "milliseconds", "high"), times, strict=True))
        for way, times in {"hidden_anchor": anchors, COMPARED[claim]: other}.items()
    ]
    return {"timing": frame(rows, TIMING)}


@pytest.mark.parametrize("claim", COMPARED)
@pytest.mark.parametrize(
    ("anchors", "other", "verdict"),
    [
        (QUICK, SLOW, "supported"),
        ((4, 5, 9), SLOW, "inconclusive"),
        ((4, 10.5, 12), SLOW, "inconclusive"),
        ((10.9, 12, 13), SLOW, "inconclusive"),
        ((11, 12, 13), SLOW, "not supported"),
        (SLOW, QUICK, "not supported"),
    ],
)
def test_quartiles_decide(
    claim: str, anchors: Sequence[float], other: Sequence[float], verdict: str
) -> None:
    found = judged(claim, timed(claim, anchors, other))
    assert found["verdict"] == verdict
    assert found["effect"] == pytest.approx(other[1] / anchors[1] - 1)
    assert found["low"] == pytest.approx(other[0] / anchors[2] - 1)
    assert found["high"] == pytest.approx(other[2] / anchors[0] - 1)
    assert found["rule"].startswith("quartiles: supported if the anchors' upper one")
    assert (found["examples"], found["seeds"], found["p_value"]) == (8, 1, None)
    assert found["interval"] == "quartiles of timings"


@pytest.mark.parametrize("claim", COMPARED)
@pytest.mark.parametrize(
    ("of_news", "of_mine", "verdict"),
    [
        ((QUICK, SLOW), (QUICK, SLOW), "supported"),
        ((QUICK, SLOW), (SLOW, QUICK), "inconclusive"),
        ((SLOW, QUICK), (SLOW, QUICK), "not supported"),
    ],
)
def test_tasks_must_agree(
    claim: str,
    of_news: tuple[Sequence[float], Sequence[float]],
    of_mine: tuple[Sequence[float], Sequence[float]],
    verdict: str,
) -> None:
    parts = [timed(claim, *of_news), timed(claim, *of_mine, task="mine")]
    tables = {"timing": pl.concat([part["timing"] for part in parts])}
    found = of_claim(summarize(tables, tasks=["news", "mine"]), claim, "average")
    assert (found["verdict"], found["reason"], found["examples"]) == (verdict, None, 16)
    assert found["rule"] == "quartiles: supported, or not, if it is so in every task that was timed"


@pytest.mark.parametrize(("claim", "other"), COMPARED.items())
def test_what_was_not_timed_is_named(claim: str, other: str) -> None:
    tables = {"timing": timed(claim, QUICK, SLOW)["timing"].filter(way="hidden_anchor")}
    found = judged(claim, tables)
    assert (found["verdict"], found["reason"]) == ("not tested", f"{other} was not timed")
