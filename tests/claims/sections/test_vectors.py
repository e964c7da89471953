"""Claims on vectors: what is told from wrong label words, from recipients, and from no training."""

from collections.abc import Sequence

import pytest

from anchorflow.claims.claim import NotMeasured, Run
from anchorflow.claims.summarize import load_claims
from anchorflow.claims.verdicts import SUPPORTED, UNDECIDED
from constructed.claims import TWINS, judged
from constructed.vectors import ONE, RANDOM_TEXTS, RECIPIENT, Setting, answers, put

CLAIMS = {claim.name: claim for claim in load_claims()}
LOW, HIGH = [0.25, 0.25], [0.75, 0.75]
TASK, FUNCTION, LOCAL = put("task"), put("function"), put("local")
OTHER = put("task", "other_task")
WRONG, WRONG_HEADS = put("task", "deranged"), put("function", "deranged")


def effects(claim: str, known: dict[Setting, list[float]]) -> list[float]:
    """The effect of a claim and, if it has one of its own, that of its control."""
    run, control = Run("news", {"vectors": answers(known)}, "mask", 1.0), CLAIMS[claim].control
    measures = [CLAIMS[claim].measure, *([control.measure] if control.measure else [])]
    return [float(measure(run).effect.values[0]) for measure in measures]  # type: ignore[union-attr]


OVER_ONE, OVER_GLOBAL = "vector_over_one_demonstration", "local_vectors_over_task_vector"


@pytest.mark.parametrize(
    ("claim", "known", "expected"),
    [
        ("task_vector_recovers", {TASK: HIGH, WRONG: LOW, OTHER: LOW}, [0.5, 0]),
        ("task_vector_recovers", {TASK: HIGH, WRONG: LOW, OTHER: HIGH}, [0.5, 0.5]),
        ("task_vector_recovers", {TASK: HIGH, WRONG: HIGH, OTHER: LOW}, [0, -0.5]),
        ("task_vector_recovers", {TASK: LOW, WRONG: HIGH, OTHER: HIGH}, [-0.5, 0]),
        # Another layer than the chosen one does not count.
        (
            "task_vector_recovers",
            {TASK: LOW, WRONG: LOW, OTHER: LOW, put("task", "own", 5): HIGH},
            [0, 0],
        ),
        (
            "function_vector_recovers",
            {FUNCTION: HIGH, WRONG_HEADS: LOW, put("function", "other_task"): LOW},
            [0.5, 0],
        ),
        (OVER_GLOBAL, {LOCAL: HIGH, TASK: LOW, RANDOM_TEXTS: LOW, RECIPIENT: LOW}, [0.5, 0]),
        # What random texts with label words already tell is no gain of local vectors.
        (OVER_GLOBAL, {LOCAL: HIGH, TASK: LOW, RANDOM_TEXTS: HIGH, RECIPIENT: LOW}, [0.5, 0.5]),
        (OVER_GLOBAL, {LOCAL: LOW, TASK: HIGH, RANDOM_TEXTS: LOW, RECIPIENT: LOW}, [-0.5, 0]),
        (OVER_ONE, {TASK: HIGH, WRONG: LOW, ONE: LOW}, [0.5, 0]),
        (OVER_ONE, {TASK: HIGH, WRONG: HIGH, ONE: LOW}, [0.5, 0.5]),
        (OVER_ONE, {TASK: LOW, WRONG: LOW, ONE: HIGH}, [-0.5, -0.5]),
    ],
)
def test_effects(claim: str, known: dict[Setting, list[float]], expected: Sequence[float]) -> None:
    assert effects(claim, known) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("claim", "known", "match"),
    [
        ("task_vector_recovers", {WRONG: LOW}, r"the run has no task vectors \(vectors.kinds\)"),
        ("task_vector_recovers", {TASK: LOW}, "label words can't be exchanged in this task"),
        ("task_vector_recovers", {TASK: LOW, WRONG: LOW}, "the run has a single task, or no"),
        (OVER_ONE, {TASK: LOW}, "the run has no answers with 1 demonstrations"),
    ],
)
def test_what_is_lacking_is_named(
    claim: str, known: dict[Setting, list[float]], match: str
) -> None:
    with pytest.raises(NotMeasured, match=match):
        effects(claim, known)


def test_a_vector_recovers_if_an_untrained_network_s_does_not() -> None:
    known = {TASK: [0.7, 0.75, 0.8, 0.75], WRONG: [0.25, 0.3, 0.25, 0.2]}
    known[OTHER] = [0.3, 0.3, 0.2, 0.25]
    own = {"vectors": answers(known, seeds=3)}
    flat = {setting: [0.4, 0.5, 0.6, 0.5] for setting in known}
    for of_twin, verdict in ((flat, SUPPORTED), (known, UNDECIDED)):
        twin = {"vectors": answers(of_twin, seeds=3, model=TWINS[0])}
        found = judged("task_vector_recovers", own, twin)
        assert found["effect"] == pytest.approx(0.5)
        assert found["verdict"] == verdict, found["reason"]
