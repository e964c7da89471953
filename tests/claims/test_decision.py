"""Decisions on claims by effect, control, null, and tasks, from numbers worked out by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from anchorflow.claims import summarize as engine
from anchorflow.claims.claim import UNTRAINED, Claim, Control, NotMeasured, Run, Sampled, Timed
from anchorflow.claims.decision import (
    ONE_SEED,
    Bounded,
    Decision,
    Verdict,
    corrected,
    decide,
    with_disagreement,
)
from anchorflow.claims.effects import mean_of_examples, minus
from anchorflow.claims.measured import measure_claim
from anchorflow.claims.verdicts import (
    CONTROL,
    EFFECT,
    FAILS,
    HOLDS,
    MISSING,
    MIXED,
    NONE,
    NOT_COMPARED,
    NOT_MEASURED,
    NOT_SUPPORTED,
    NULL,
    SUPPORTED,
    UNCLEAR,
    UNDECIDED,
    UNTRAINED_TOO,
)
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean_where_defined
from constructed.claims import Row
from constructed.rows import frame

NAN = float("nan")
# Three seeds whose means are 0.1 apart have an interval of 4.303 (Student's t with two degrees of
# freedom) times 0.1 / √3 on either side.
HALF = float(stats.t.isf(0.025, 2)) * 0.1 / np.sqrt(3)
TEXTS = 100  # of each seed
LEAST = float(stats.t.isf(0.025, 2)) / (3 * TEXTS + 2)  # half an interval where no text differs

Values = Mapping[int, Sequence[float]]  # of each seed, the values of its texts


def seeds(*means: float) -> Values:
    """Seeds with these means, each of texts of its own that do not differ."""
    return {seed: [mean] * TEXTS for seed, mean in enumerate(means)}


def sampled(values: Values, shared: bool = False) -> Sampled:
    """An effect with these values of texts; by default, seeds have different texts."""
    return Sampled(
        {
            seed: SeedStatistic(
                weighted_mean_where_defined(np.array(of_texts, float)[:, None]),
                np.arange(len(of_texts)) + (0 if shared else 100 * seed),
            )
            for seed, of_texts in values.items()
        }
    )


Measures = Mapping[str, Mapping[str, Values]]  # by model, and by task


def claim_of(effects: Measures, control: Mapping[str, Values] | None = None) -> Claim:
    """A claim with these effects; the model's own name is "tiny", and other models are twins."""

    def measure(run: Run) -> Sampled:
        of_model = effects[run.tables["predictions"]["model"][0]]
        if run.task not in of_model:
            raise NotMeasured("the run lacks it")
        return sampled(of_model[run.task])

    def measure_control(run: Run) -> Sampled:
        assert control is not None
        if run.task not in control:
            raise NotMeasured("there is none", "more: {of: it}")
        return sampled(control[run.task])

    described = Control("something else", None if control is None else measure_control)
    null = UNTRAINED if len(effects) > 1 else ""
    declared = ("a", "A.", "[A] §1", "a", "1")
    return Claim(*declared, measure, described, null, undefined="none there", figure="flow")


def rows_of(
    monkeypatch: pytest.MonkeyPatch, tasks: Sequence[str], twins: Sequence[str], *claims: Claim
) -> dict[tuple[str, str], Row]:
    """The table of claims of a run of these tasks and untrained networks, by claim and task."""
    answer = {"seed": 0, "example": 0, "label": 0, "prediction": 0, "probabilities": [0.5, 0.5]}
    of_models = {
        model: frame([{**answer, "task": task} for task in tasks], PREDICTIONS, model=model)
        for model in ("tiny", *twins)
    }
    tables = {"predictions": of_models.pop("tiny")}
    if twins:
        tables["untrained_predictions"] = pl.concat(of_models.values())
    monkeypatch.setattr(engine, "load_claims", lambda: list(claims))
    summary = engine.summarize_claims(tasks, "mask", 0.05, 0.95, {}, **tables)
    return {(row["claim"], row["task"]): row for row in summary.iter_rows(named=True)}


def decided(effect: Values, control: Values | None = None, **twins: Values | None) -> Row:
    """What is said of one task, before the correction; None for a twin that was not measured."""
    effects = {"tiny": effect, **twins}
    claim = claim_of(
        {model: {} if of is None else {"own": of} for model, of in effects.items()},
        None if control is None else {"own": control} if control else {},
    )
    runs = {
        model: Run("own", {"predictions": pl.DataFrame({"model": [model]})}, "mask", 0.05)
        for model in effects
    }
    run = replace(runs.pop("tiny"), untrained=runs)
    return decide(claim, measure_claim(claim, run), 0.95).columns()


NO_EFFECT, UNCLEAR_EFFECT = "the effect is not above 0", "the effect is not clearly above 0"
LIKE_CONTROL, LIKE_TWIN = "not clearly above its control", "not clearly above an untrained network"
ALSO_CONTROL, ALSO_TWIN = "also true of its control", "also true of an untrained network"
BELOW_TWIN, UNDEFINED = "not above an untrained network", "undefined: none there"
NO_CONTROL = "its control was not measured"
FEW_SEEDS = "it has a value in fewer than two seeds of a task"
NO_TWIN = "no untrained twin was measured for this claim"
ASK_FOR_TWIN = "controls.untrained and, in controls.stages, flow"
SURE, LOW = seeds(0.5, 0.6, 0.7), seeds(0.3, 0.4, 0.5)  # always 0.2 apart
NOTHING = seeds(NAN, NAN, NAN)


class Case(NamedTuple):
    """An effect with what it is compared with, and what is said of it."""

    effect: Values
    signs: str  # of the marks of effect, control, and null
    verdict: str
    reason: str | None = None
    control: Values | None = None  # none needed; empty if it was not measured
    twins: Mapping[str, Values | None] = {}  # None if it was not measured


BESIDE_LOW, NOT_RUN = {"a": LOW}, {"a": None}
DOWN, VAGUE, HIGH = seeds(-0.5, -0.5, -0.5), seeds(0.1, 0.2, 0.3), seeds(0.7, 0.8, 0.9)
FLAT, TENTH = seeds(0.4, 0.4, 0.4), seeds(0.1, 0.1, 0.1)
A_SEED = {0: [0.1, 0.1]}

OUTCOMES: dict[str, Case] = {
    "above": Case(seeds(0.2, 0.3, 0.4), "✓ – –", SUPPORTED),
    "not clearly": Case(VAGUE, "? – –", UNDECIDED, UNCLEAR_EFFECT),
    "hardly below": Case(seeds(-0.3, -0.2, -0.1), "? – –", UNDECIDED, UNCLEAR_EFFECT),
    "below": Case(seeds(-0.4, -0.3, -0.2), "✗ – –", NOT_SUPPORTED, NO_EFFECT),
    "always 0": Case(seeds(0, 0, 0), "? – –", UNDECIDED, UNCLEAR_EFFECT),
    "above both": Case(SURE, "✓ ✓ ✓", SUPPORTED, None, LOW, BESIDE_LOW),
    "below control": Case(SURE, "✓ ✗ ✓", NOT_SUPPORTED, ALSO_CONTROL, HIGH, BESIDE_LOW),
    "like control": Case(SURE, "✓ ? ✓", UNDECIDED, LIKE_CONTROL, SURE, BESIDE_LOW),
    "like twin": Case(SURE, "✓ ✓ ?", UNDECIDED, LIKE_TWIN, LOW, {"a": SURE}),
    "below twin": Case(SURE, "✓ ✓ ✗", UNTRAINED_TOO, ALSO_TWIN, LOW, {"a": seeds(0.9, 1, 1.1)}),
    "varied control": Case(SURE, "✓ ? ✓", UNDECIDED, LIKE_CONTROL, FLAT, BESIDE_LOW),
    "varied twin": Case(SURE, "✓ ✓ ?", UNDECIDED, LIKE_TWIN, LOW, {"a": FLAT}),
    "below twin, varied control": Case(
        SURE, "✓ ? ✗", UNTRAINED_TOO, f"{ALSO_TWIN}; {LIKE_CONTROL}", FLAT, {"a": HIGH}
    ),
    "below 0 is true of nothing": Case(
        DOWN, "✗ ✗ ✗", NOT_SUPPORTED, NO_EFFECT, TENTH, {"a": seeds(0, 0, 0)}
    ),
    "unclear, below twin": Case(
        VAGUE, "? – ✗", NOT_SUPPORTED, f"{BELOW_TWIN}; {UNCLEAR_EFFECT}", None, {"a": SURE}
    ),
    "no twin": Case(SURE, "✓ – …", NOT_COMPARED, NO_TWIN, None, NOT_RUN),
    "no twin, below": Case(DOWN, "✗ – …", NOT_SUPPORTED, f"{NO_EFFECT}; {NO_TWIN}", None, NOT_RUN),
    "no twin, unclear": Case(
        VAGUE, "? – …", UNDECIDED, f"{UNCLEAR_EFFECT}; {NO_TWIN}", None, NOT_RUN
    ),
    "undefined twin": Case(
        SURE, "✓ – …", NOT_COMPARED, "undefined for a: none there", None, {"a": NOTHING}
    ),
    "one seed of a twin": Case(
        SURE, "✓ – ?", UNDECIDED, f"{LIKE_TWIN}: {FEW_SEEDS}", None, {"a": A_SEED}
    ),
    "no control": Case(SURE, "✓ … –", NOT_COMPARED, f"{NO_CONTROL}: there is none", {}),
    "undefined control": Case(SURE, "✓ … –", NOT_COMPARED, "its control is undefined", NOTHING),
    "undefined": Case(NOTHING, "? … …", UNDECIDED, UNDEFINED, TENTH, {"a": seeds(0, 0, 0)}),
    "one seed has a value": Case(
        {**seeds(NAN, NAN), 2: [0.3, 0.3]}, "? – –", UNDECIDED, f"{UNCLEAR_EFFECT}: {FEW_SEEDS}"
    ),
    "a seed has none": Case({**seeds(0.2, 0.3, 0.4), 3: [NAN] * 2}, "✓ – –", SUPPORTED),
    "one seed": Case({0: [0.2, 0.4]}, "? ? ?", NOT_MEASURED, ONE_SEED, A_SEED, {"a": A_SEED}),
    "one seed, undefined": Case({0: [NAN, NAN]}, "? – –", NOT_MEASURED, f"{UNDEFINED}; {ONE_SEED}"),
    # Two seeds of one text each, both 1, would otherwise be all but certain.
    "a text per seed": Case(
        {0: [1.0], 1: [1.0]}, "? – –", UNDECIDED, "too few texts: 2 distinct ones in 2 seeds"
    ),
    "carried by a seed": Case(
        {0: [0.1, 0.12] * 9, 1: [0.1, 0.12] * 9, 2: [0.9, 0.92] * 9},
        "? – –",
        UNDECIDED,
        f"{UNCLEAR_EFFECT}; without seed 2, less than half of the effect remains",
    ),
}
REMEDIES = {
    "no twin": ASK_FOR_TWIN,
    "no control": "more: {of: it}",
    "one seed": "seeds: [0, 1, 2, 3]",
    "one seed, undefined": "seeds: [0, 1, 2, 3]",
    "a text per seed": "test_examples: 16",
}
MARKS = {"✓": HOLDS, "✗": FAILS, "?": UNCLEAR, "…": MISSING, "–": NONE}
DECIDED = (SUPPORTED, NOT_SUPPORTED, UNTRAINED_TOO)


@pytest.mark.parametrize("name", OUTCOMES)
def test_what_is_said_of_an_effect_beside_its_control_and_null(name: str) -> None:
    effect, signs, verdict, reason, control, twins = OUTCOMES[name]
    found = decided(effect, control, **twins)
    assert (found["verdict"], found["reason"]) == (verdict, reason)
    marks = {part: MARKS[sign] for part, sign in zip(PARTS, signs.split(), strict=True)}
    assert {part: found[f"{part}_mark"] for part in PARTS} == marks
    failing = ["effect"] if marks["effect"] == FAILS else [p for p in PARTS if marks[p] == FAILS]
    assert found["fails"] == (", ".join(failing) or None)
    assert found["remedy"] == REMEDIES.get(name)
    if found["p_value"] is not None:
        assert (found["p_value"] < 0.05) == (verdict in DECIDED)
    # The mark is the interval's sign, except where one seed or few texts decide nothing.
    for part in PARTS if found["interval"] == "seeds and test texts" else ():
        low, high = found[END[part][0]], found[END[part][1]]
        if low is not None and "few texts" not in (reason or ""):
            assert marks[part] == (HOLDS if low > 0 else FAILS if high <= 0 else UNCLEAR)


PARTS = ("effect", "control", "null")
END = {"effect": ("low", "high")} | {
    part: (f"over_{part}_low", f"over_{part}_high") for part in PARTS[1:]
}


def test_an_interval_that_ends_at_0_is_not_above_it() -> None:
    marks = [Bounded("effect", 0, *ends).mark for ends in ((0, 1), (-1, 0), (1e-9, 1), (-1, 1e-9))]
    assert marks == [UNCLEAR, FAILS, HOLDS, UNCLEAR]


@pytest.mark.parametrize(
    ("means", "mean", "half"),
    [((0.2, 0.3, 0.4), 0.3, HALF), ((-0.1, -0.1, -0.1), -0.1, LEAST), ((0, 0, 0), 0, LEAST)],
)
def test_intervals_and_p_values_are_those_of_student_s_t(
    means: Sequence[float], mean: float, half: float
) -> None:
    found = decided(seeds(*means))
    assert (found["effect"], found["low"], found["high"]) == pytest.approx(
        (mean, mean - half, mean + half)
    )
    assert (found["examples"], found["seeds"]) == (3 * TEXTS, 3)
    deviations = abs(mean) / (0.1 / np.sqrt(3) if half == HALF else 1 / (3 * TEXTS + 2))
    assert found["p_value"] == pytest.approx(2 * stats.t.sf(deviations, 2))


@pytest.mark.parametrize(("other", "half"), [((0.3, 0.4, 0.5), LEAST), ((0.4, 0.4, 0.4), HALF)])
def test_differences_from_control_and_null_are_paired_by_seed(
    other: Sequence[float], half: float
) -> None:
    found = decided(SURE, seeds(*other), a=seeds(*other))
    for part in ("control", "null"):
        names = (f"{part}_effect", f"over_{part}", *END[part])
        assert [found[name] for name in names] == pytest.approx([0.4, 0.2, 0.2 - half, 0.2 + half])


def test_no_difference_is_not_taken_for_one_by_rounding() -> None:
    third = 1 / 3
    found = decided(seeds(*[third] * 3), seeds(*[0.1 + 0.2 + third - 0.3] * 3))
    assert [found[end] for end in END["control"]] == pytest.approx([-LEAST, LEAST])


def test_one_seed_has_an_interval_over_its_texts() -> None:
    found = decided({0: [0.2, 0.4]})
    half = stats.t.isf(0.025, 1) * np.sqrt(0.02 / 2)  # two texts: one degree of freedom
    assert (found["low"], found["high"]) == pytest.approx((0.3 - half, 0.3 + half))
    assert (found["interval"], found["p_value"]) == ("test texts", None)


def test_of_several_twins_the_one_that_is_exceeded_least_clearly_decides() -> None:
    low, high, vague = seeds(0.1, 0.2, 0.3), seeds(0.4, 0.5, 0.6), seeds(0.3, 0.3, 0.3)
    for twins, verdict, effect in (
        ((low, high), SUPPORTED, 0.5),
        ((high, vague, low), SUPPORTED, 0.3),  # 0.3 ± 0.248, and 0.1 ± 0
        ((low, seeds(0.7, 0.8, 0.9)), UNTRAINED_TOO, 0.8),
        ((low, {0: [0.1, 0.1]}), UNDECIDED, 0.1),
    ):
        found = decided(SURE, **{f"t{place}": twin for place, twin in enumerate(twins)})
        assert (found["verdict"], found["null_effect"]) == (verdict, pytest.approx(effect))


def test_refutations_have_p_values_for_as_many_chances_as_they_had() -> None:
    """The smallest of those below 0, times three; of what is above 0, the largest."""
    below = decided(SURE, seeds(0.7, 0.8, 0.9), a=seeds(0.1, 0.2, 0.3))
    assert below["p_value"] == pytest.approx(3 * 2 * stats.t.sf(0.2 * (3 * TEXTS + 2), 2))
    # Barely above 0, and clearly below an untrained network.
    also = decided(seeds(0.2, 0.35, 0.35), a=seeds(0.9, 1.05, 1.05))
    assert also["verdict"] == UNTRAINED_TOO
    assert also["p_value"] == pytest.approx(decided(seeds(0.2, 0.35, 0.35))["p_value"])


def test_fewer_texts_than_seeds_earn_no_verdict_and_times_are_no_samples() -> None:
    run = Run("own", {}, "mask", 0.05)
    claim = replace(
        claim_of({"tiny": {}}),
        measure=lambda run: sampled({seed: [1.0, 1.0] for seed in range(3)}, shared=True),
    )
    shared = decide(claim, measure_claim(claim, run), 0.95)
    assert shared.verdict.reasons == ("too few texts: 2 distinct ones in 3 seeds",)
    timed = replace(claim, measure=lambda run: Timed(0.5, 0.1, 0.9, 8))
    found = decide(timed, measure_claim(timed, run), 0.95).columns()
    assert [found[name] for name in ("effect", "low", "high", "examples")] == [0.5, 0.1, 0.9, 8]
    assert (found["verdict"], found["p_value"]) == (SUPPORTED, None)
    assert found["interval"] == "quartiles of timings"


# --- differences ---------------------------------------------------------------------------------


def test_differences_are_paired_by_text() -> None:
    # Texts differ by 10, but each is 1 above its control.
    values = {seed: [0.0, 10.0, 20.0] for seed in range(3)}
    control = {seed: [text - 1 for text in of_seed] for seed, of_seed in values.items()}
    difference = minus(sampled(values, shared=True), sampled(control, shared=True)).effect
    low, high = difference.interval(0.95)
    least = stats.t.isf(0.025, 2) / (3 + 2)  # of three texts, which all seeds share
    assert (low[0], high[0]) == pytest.approx((1 - least, 1 + least))
    low, high = sampled(values, shared=True).effect.interval(0.95)
    assert low[0] < 0 < high[0]


def test_fewer_texts_of_a_twin_leave_all_texts_of_the_effect() -> None:
    """The mean of four texts minus that of two of them; a text of both is left out of both."""
    effect = sampled({seed: [1.0, 2, 3, 6] for seed in range(3)}, shared=True)
    twin = sampled({seed: [0.0, 1] for seed in range(3)}, shared=True)
    all_of_them, common = minus(effect, twin, all_texts=True), minus(effect, twin)
    assert (all_of_them.effect.values[0], common.effect.values[0]) == (3 - 0.5, 1.5 - 0.5)
    assert (all_of_them.examples, common.examples) == (12, 6)
    without = all_of_them.by_seed[0].statistic(1 - np.eye(4))[:, 0].tolist()
    assert without == pytest.approx([11 / 3 - 1, 10 / 3 - 0, 3 - 0.5, 2 - 0.5])


def test_differences_are_of_the_texts_that_have_a_value_on_both_sides() -> None:
    rows = pl.DataFrame({"example": [0, 1, 2]})
    first, second = (
        Sampled({0: mean_of_examples(rows, np.array(values))})
        for values in ([NAN, 1.0, 4.0], [5.0, 1.0, NAN])
    )
    difference = minus(first, second)
    assert difference.effect.values.tolist() == [0.0]  # that of text 1 alone
    assert difference.by_seed[0].texts.tolist() == [1]
    nothing = Sampled({0: mean_of_examples(rows, np.full(3, NAN))})
    assert np.isnan(minus(first, nothing).effect.values).all()


def test_differences_are_of_the_seeds_in_which_both_have_a_value() -> None:
    first = sampled({0: [1, 1], 1: [2, 2], 2: [9, 9]})
    second = sampled({2: [NAN, NAN], 1: [1, 1], 0: [1, 1], 3: [7, 7]})
    difference = minus(first, second)
    assert difference.effect.values.tolist() == [0.5]
    low, high = difference.effect.interval(0.95)
    half = stats.t.isf(0.025, 1) * np.sqrt(0.5 / 2)  # of 0 and 1, with one degree of freedom
    assert (low[0], high[0]) == pytest.approx((0.5 - half, 0.5 + half))
    with pytest.raises(NotMeasured, match="different texts"):
        minus(sampled({0: [1, 1]}), sampled({1: [1, 1]}))


# --- several tasks -------------------------------------------------------------------------------

ZERO = seeds(0, 0, 0)
FIRM, WEAK = seeds(0.5, 0.5, 0.5), seeds(0.3, 0.3, 0.3)
NO_TWIN_EVERYWHERE = "no untrained twin has a value in every task"


class OverTasks(NamedTuple):
    """Effects of the model and its twins by task, and what is said over tasks."""

    effects: Measures
    effect: float | None
    verdict: str
    reason: str | None = None


BOTH_ABOVE, HALF_SEED = {"one": FIRM, "other": WEAK}, seeds(0.5)
OVER_TASKS: dict[str, OverTasks] = {
    "alike": OverTasks(
        {"tiny": {"one": seeds(0.3, 0.4, 0.5), "other": {0: [0.8] * 9, 1: [0.8] * 9}}},
        0.6,
        SUPPORTED,
    ),
    "tasks without": OverTasks(
        {"tiny": {"one": WEAK, "other": NOTHING}}, 0.3, SUPPORTED, "without other"
    ),
    "not measured": OverTasks({"tiny": {}}, None, NOT_MEASURED, "the run lacks it"),
    "a twin of one task": OverTasks(
        {"tiny": BOTH_ABOVE, "a": {"one": ZERO}, "b": {}},
        0.4,
        NOT_COMPARED,
        f"{NO_TWIN}; {NO_TWIN_EVERYWHERE}",
    ),
    "a twin of each task": OverTasks(
        {"tiny": BOTH_ABOVE, "a": {"one": ZERO}, "b": {"other": ZERO}},
        0.4,
        NOT_COMPARED,
        NO_TWIN_EVERYWHERE,
    ),
    "a twin of both": OverTasks(
        {"tiny": BOTH_ABOVE, "a": {"one": ZERO, "other": TENTH}}, 0.4, SUPPORTED
    ),
    "one seed in one task": OverTasks(
        {"tiny": {"one": FIRM, "other": HALF_SEED}},
        0.5,
        UNDECIDED,
        f"{UNCLEAR_EFFECT}: {FEW_SEEDS}",
    ),
    "one seed": OverTasks(
        {"tiny": {"one": HALF_SEED, "other": HALF_SEED}}, 0.5, NOT_MEASURED, ONE_SEED
    ),
    "opposed": OverTasks(
        {"tiny": {"one": seeds(0.7, 0.7, 0.7), "other": seeds(-0.3, -0.3, -0.3)}},
        0.2,
        MIXED,
        "tasks disagree: the effect is above 0 for one, not for other",
    ),
    # No difference in a few hundred texts refutes nothing.
    "one has none": OverTasks({"tiny": {"one": FIRM, "other": ZERO}}, 0.25, SUPPORTED),
}


@pytest.mark.parametrize("name", OVER_TASKS)
def test_what_is_said_over_tasks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    effects, effect, verdict, reason = OVER_TASKS[name]
    twins = [model for model in effects if model != "tiny"]
    rows = rows_of(monkeypatch, ("one", "other"), twins, claim_of(effects))
    found = rows["a", "average"]
    assert found["effect"] == (None if effect is None else pytest.approx(effect))
    assert (found["verdict"], found["reason"]) == (verdict, reason)


def test_a_task_that_the_correction_leaves_undecided_disagrees_with_none() -> None:
    overall = Decision(Verdict(UNDECIDED), interval="seeds and test texts")

    def of(verdict: str, effect: str) -> Decision:
        return Decision(Verdict(verdict), {EFFECT: effect, CONTROL: NONE, NULL: NONE})

    above, below = of(SUPPORTED, HOLDS), of(NOT_SUPPORTED, FAILS)
    assert with_disagreement(overall, {"a": above, "b": below}).verdict.name == MIXED
    # Their intervals are on different sides of 0 as before.
    for lost in ({"a": of(UNDECIDED, HOLDS), "b": below}, {"a": above, "b": of(UNDECIDED, FAILS)}):
        assert with_disagreement(overall, lost) is overall


def test_variances_of_tasks_add_up_and_the_seed_that_carries_one_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of_tasks = {"one": seeds(0.3, 0.4, 0.5), "other": {0: [0.8] * 9, 1: [0.8] * 9}}
    rows = rows_of(monkeypatch, ("one", "other"), (), claim_of({"tiny": of_tasks}))
    found = rows["a", "average"]
    assert (found["low"], found["high"]) == pytest.approx((0.6 - HALF / 2, 0.6 + HALF / 2))
    assert (found["examples"], found["seeds"]) == (3 * TEXTS + 18, 3)
    carried = {"one": {0: [0.0, 0.1], 1: [0.9, 1.0]}, "other": {0: [0.0, 0.1], 1: [0.1, 0]}}
    rows = rows_of(monkeypatch, ("one", "other"), (), claim_of({"tiny": carried}))
    assert "without seed 1 of one, less than half" in rows["a", "average"]["reason"]
    alone = rows_of(monkeypatch, ("one",), (), claim_of({"tiny": {"one": WEAK}}))
    assert alone["a", "average"]["reason"] == "the run has one task"


def test_the_correction_of_a_run_s_claims_equals_the_values_worked_out_by_hand() -> None:
    p_values = [0.02, None, 0.01, 0.4, 0.045, 0.021]
    verdicts = [SUPPORTED, UNDECIDED, NOT_SUPPORTED, UNDECIDED, SUPPORTED, UNTRAINED_TOO]
    decisions = [
        Decision(Verdict(name), p_value=p) for p, name in zip(p_values, verdicts, strict=True)
    ]
    found = [decision.columns() for decision in corrected(decisions, 0.95)]
    # In order 0.01 · 5 / 1, 0.02 · 5 / 2, 0.021 · 5 / 3, which is less than both, 0.045 · 5 / 4.
    expected = [0.035, None, 0.035, 0.4, 0.05625, 0.035]
    assert [row["p_corrected"] for row in found] == [
        None if p is None else pytest.approx(p) for p in expected
    ]
    lost = "not after the correction for the run's 5 claims"
    assert [row["reason"] for row in found] == [None, None, None, None, lost, None]
    assert [row["verdict"] for row in found] == [*verdicts[:4], UNDECIDED, verdicts[5]]
    assert corrected([Decision()], 0.95) == [Decision()]


# --- any measurements ----------------------------------------------------------------------------

TASKS, TWINS = ("news", "poems"), ("a", "b")
_VALUES = st.lists(
    st.lists(st.integers(-2, 6), min_size=3, max_size=3), min_size=1, max_size=4
).map(lambda of_seeds: {seed: [v / 4 for v in texts] for seed, texts in enumerate(of_seeds)})
_BY_TASK = st.dictionaries(st.sampled_from(TASKS), _VALUES)
_MEASURED = st.tuples(_BY_TASK, st.none() | _BY_TASK, st.lists(_BY_TASK, max_size=2))


def mean(values: Values) -> float:
    return sum(sum(texts) / len(texts) for texts in values.values()) / len(values)


def mean_difference(first: Values, second: Values) -> float:
    """Over the seeds that both have, in each of which they have the same texts."""
    both = [seed for seed in first if seed in second]
    return mean({s: first[s] for s in both}) - mean({s: second[s] for s in both})


def verdict_by_rule(row: Row) -> str:
    """The verdict on a task from the marks and the corrected p value alone."""
    effect, control, null = (row[f"{part}_mark"] for part in PARTS)
    if row["interval"] != "seeds and test texts":
        return NOT_MEASURED
    if FAILS in (effect, control) or (null == FAILS and effect != HOLDS):
        verdict = NOT_SUPPORTED
    elif null == FAILS:
        verdict = UNTRAINED_TOO
    elif UNCLEAR in (effect, control, null):
        verdict = UNDECIDED
    else:
        verdict = NOT_COMPARED if MISSING in (control, null) else SUPPORTED
    lost = verdict in DECIDED and row["p_corrected"] > 0.05
    return UNDECIDED if lost else verdict


def corrected_one_by_one(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg: of each, the least of p · m / rank of those at or above it."""
    order = sorted(p_values)
    return [
        min(p * len(order) / (order.index(p) + order.count(p)) for p in order if p >= own)
        for own in p_values
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(_MEASURED, min_size=1, max_size=4))
def test_any_measurements_give_what_a_plain_loop_gives(measured: list[Any]) -> None:
    claims = [
        replace(
            claim_of(
                {"tiny": own, **{t: dict(pair) for t, pair in zip(TWINS, twins, strict=False)}}
                | {t: {} for t in TWINS[len(twins) :]},
                control,
            ),
            name=str(place),
        )
        for place, (own, control, twins) in enumerate(measured)
    ]
    with pytest.MonkeyPatch.context() as patch:
        rows = rows_of(patch, TASKS, TWINS, *claims)
    for (place, (own, control, twins)), task in product(enumerate(measured), TASKS):
        row = rows[str(place), task]
        if task not in own:
            assert (row["verdict"], row["effect"]) == (NOT_MEASURED, None)
            continue
        assert row["effect"] == pytest.approx(mean(own[task]))
        over = [mean_difference(own[task], twin[task]) for twin in twins if task in twin]
        assert (row["null_mark"] == MISSING) == (not over)
        if over:
            assert any(row["over_null"] == pytest.approx(value) for value in over)
        if control is not None and task in control:
            assert row["over_control"] == pytest.approx(mean_difference(own[task], control[task]))
        assert row["verdict"] == verdict_by_rule(row)
        for part in PARTS if row["interval"] == "seeds and test texts" else ():
            low, high = (row[end] for end in END[part])
            if low is not None:
                sign = HOLDS if low > 0 else FAILS if high <= 0 else UNCLEAR
                assert row[f"{part}_mark"] == sign
    for place, (own, _, _) in enumerate(measured):
        if own:
            average = sum(mean(values) for values in own.values()) / len(own)
            assert rows[str(place), "average"]["effect"] == pytest.approx(average)
    for task in (*TASKS, "average"):
        tested = [row for (_, of), row in rows.items() if of == task and row["p_value"] is not None]
        expected = corrected_one_by_one([row["p_value"] for row in tested])
        assert [row["p_corrected"] for row in tested] == pytest.approx(expected)
