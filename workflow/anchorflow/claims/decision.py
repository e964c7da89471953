"""Decisions on a claim: its effect, what it has to exceed, and the verdict with its reason."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from anchorflow.claims.claim import UNTRAINED, Claim, NotMeasured, Run, Sampled, Timed
from anchorflow.claims.effects import minus
from anchorflow.claims.verdicts import (
    FAILS,
    HOLDS,
    MISSING,
    MIXED,
    NONE,
    NOT_COMPARED,
    NOT_MEASURED,
    NOT_SUPPORTED,
    SUPPORTED,
    UNCLEAR,
    UNDECIDED,
    UNTRAINED_TOO,
)
from anchorflow.statistics.estimates import Estimate, average

EFFECT, CONTROL, NULL = "effect", "control", "null"

ONE_SEED = (
    "one seed says nothing about other demonstrations; the interval is over test texts, with these "
    "demonstrations"
)


@dataclass(frozen=True)
class Comparison:
    """An effect, or its difference from what it has to exceed, for one task or over tasks."""

    what: str  # EFFECT, CONTROL, or NULL
    name: str  # of the control or the twin; empty for the effect
    value: Estimate  # of the effect, or of the difference
    against: Estimate | None = None  # the same measure of the control or the twin


@dataclass(frozen=True)
class Measured:
    """The measurements of a claim for one task, or over tasks."""

    comparisons: tuple[Comparison, ...] = ()
    examples: int = 0
    texts: int | None = 0
    seeds: int = 0
    draws: tuple[tuple[str, ...], ...] = ()  # names of the seeds of each task
    timed: Timed | None = None
    reasons: tuple[str, ...] = field(default=())  # why something is not measured or is left out
    remedies: tuple[str, ...] = ()  # lines of configuration that would measure what is missing

    @property
    def is_measured(self) -> bool:
        """Whether the claim has an effect."""
        return bool(self.comparisons) or self.timed is not None


def measure_claim(claim: Claim, run: Run) -> Measured:
    """The effect of a claim for one task, and its differences from control and null."""
    try:
        effect = claim.measure(run)
    except NotMeasured as why:
        return Measured(reasons=(str(why),), remedies=_remedy(why.remedy))
    if isinstance(effect, Timed):
        return Measured(examples=effect.runs, texts=None, seeds=1, timed=effect)
    comparisons = [Comparison(EFFECT, "", _rounded(effect.effect))]
    reasons: list[str] = []
    remedies: tuple[str, ...] = ()
    if _has_values(comparisons[0]):
        for compared, lacking, remedy in (
            _over_control(claim, run, effect),
            _over_twins(claim, run, effect),
        ):
            comparisons += compared
            reasons += lacking
            remedies += _remedy(remedy)
    return Measured(
        tuple(comparisons),
        effect.examples,
        effect.texts,
        len(effect.by_seed),
        (tuple(map(str, effect.by_seed)),),
        reasons=tuple(reasons),
        remedies=remedies,
    )


# Comparisons that have a value, the reasons why others have none, and the configuration in which
# they would. A comparison without a value, for example of a network that always answers the same,
# neither supports nor refutes a claim.
Compared = tuple[list[Comparison], list[str], str]


def _remedy(line: str) -> tuple[str, ...]:
    return (line,) if line else ()


def _over_control(claim: Claim, run: Run, effect: Sampled) -> Compared:
    if claim.control.measure is None:
        return [], [], ""
    try:
        control = _over(CONTROL, "", effect, claim.control.measure(run))
    except NotMeasured as why:
        return [], [f"its control was not measured: {why}"], why.remedy
    if not _has_values(control):
        return [], ["its control is undefined"], ""
    return [control], [], ""


def _over_twins(claim: Claim, run: Run, effect: Sampled) -> Compared:
    if claim.null != UNTRAINED:
        return [], [], ""
    twins = []
    for name, twin in run.untrained.items():
        try:
            twins.append(_over(NULL, name, effect, claim.measure(twin), all_texts=True))
        except NotMeasured:
            continue
    if not twins:
        wanted = f"controls.untrained and, in controls.stages, {claim.measured_by}"
        return [], ["no untrained twin was measured for this claim"], wanted
    undefined = [of_twin.name for of_twin in twins if not _has_values(of_twin)]
    reasons = [f"undefined for {name}: {claim.undefined}" for name in undefined]
    return [of_twin for of_twin in twins if _has_values(of_twin)], reasons, ""


def _over(
    what: str, name: str, effect: Sampled, other: object, all_texts: bool = False
) -> Comparison:
    assert isinstance(other, Sampled)
    difference = minus(effect, other, all_texts)
    return Comparison(what, name, _rounded(difference.effect), _rounded(other.effect))


def _has_values(comparison: Comparison) -> bool:
    return not np.isnan(comparison.value.values).all()


def _rounded(estimate: Estimate) -> Estimate:
    """Rounded to 12 digits, since sums in different orders of equal values may differ by less."""
    return estimate.map(lambda values: np.round(values, 12) + 0.0)  # 0.0 makes -0 a 0


def over_tasks(of_tasks: dict[str, Measured]) -> Measured:
    """The mean over the tasks in which a claim has an effect; its reasons name the others."""
    tested = {task: each for task, each in of_tasks.items() if each.is_measured}
    if not tested:
        reasons = dict.fromkeys(reason for each in of_tasks.values() for reason in each.reasons)
        return Measured(reasons=tuple(reasons), remedies=_remedies(of_tasks.values()))
    defined = [task for task, each in tested.items() if _is_defined(each)] or list(tested)
    if any(each.timed for each in tested.values()):
        timed = [each.timed for each in tested.values() if each.timed]
        value = float(np.mean([each.value for each in timed]))
        low, high = (min(each.low for each in timed), max(each.high for each in timed))
        overall = Measured(
            examples=sum(each.runs for each in timed),
            texts=None,
            seeds=1,
            timed=Timed(value, low, high, sum(each.runs for each in timed)),
        )
    else:
        overall = _average([tested[task] for task in defined])
    draws = [
        tuple(f"{seed} of {task}" for of in tested[task].draws for seed in of) for task in defined
    ]
    lacks = [task for task in of_tasks if task not in defined]
    reasons = dict.fromkeys(reason for task in defined for reason in of_tasks[task].reasons)
    some = {each.what for task in defined for each in of_tasks[task].comparisons}
    without_null = NULL in some - {each.what for each in overall.comparisons}
    return replace(
        overall,
        draws=tuple(draws),
        remedies=_remedies(of_tasks[task] for task in defined),
        reasons=(
            *reasons,
            *(["no untrained twin has a value in every task"] if without_null else []),
            *([f"without {', '.join(lacks)}"] if lacks else []),
            *(["the run has one task"] if len(of_tasks) == 1 else []),
        ),
    )


def _remedies(measured: Iterable[Measured]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for each in measured for line in each.remedies))


def _average(measured: Sequence[Measured]) -> Measured:
    """The comparisons that all have, averaged."""
    names = [(each.what, each.name) for each in measured[0].comparisons]
    comparisons = []
    for what, name in names:
        parts = [
            each
            for of_task in measured
            for each in of_task.comparisons
            if (each.what, each.name) == (what, name)
        ]
        if len(parts) < len(measured):
            continue
        against = [each.against for each in parts if each.against is not None]
        comparisons.append(
            Comparison(
                what,
                name,
                average([each.value for each in parts]),
                average(against) if against else None,
            )
        )
    return Measured(
        tuple(comparisons),
        sum(each.examples for each in measured),
        sum(each.texts or 0 for each in measured),
        max(each.seeds for each in measured),
    )


def _is_defined(measured: Measured) -> bool:
    return measured.timed is not None or _has_values(measured.comparisons[0])


@dataclass(frozen=True)
class Decision:
    """The columns of a row of the table ``claims`` that the measurements decide."""

    effect: float | None = None
    low: float | None = None
    high: float | None = None
    control_effect: float | None = None
    over_control: float | None = None
    over_control_low: float | None = None
    over_control_high: float | None = None
    null_effect: float | None = None
    over_null: float | None = None
    over_null_low: float | None = None
    over_null_high: float | None = None
    p_value: float | None = None
    p_corrected: float | None = None
    examples: int = 0
    texts: int | None = 0
    seeds: int = 0
    interval: str | None = None
    effect_mark: str = MISSING
    control_mark: str = NONE
    null_mark: str = NONE
    verdict: str = NOT_MEASURED
    fails: str | None = None
    reason: str | None = None
    remedy: str | None = None


def decide(claim: Claim, measured: Measured, confidence: float) -> Decision:
    """Effect, intervals, marks and verdict, before the correction over the run's claims.

    An effect at or below 0 refutes a claim, whatever its control and null; so does a difference
    from its control. If only the difference from the null is at or below 0, the claim holds for an
    untrained network too. Where an interval contains 0, the claim is undecided; a control or null
    that was not measured counts only where everything else holds. With one seed, or hardly more
    texts than seeds, nothing is decided.
    """
    because = "; ".join(measured.reasons) or None
    remedy = "; ".join(measured.remedies) or None
    if not measured.is_measured:
        return Decision(reason=because, remedy=remedy)
    counts: dict[str, Any] = {key: getattr(measured, key) for key in ("examples", "texts", "seeds")}
    if measured.timed is not None:
        timed = measured.timed
        mark = _mark((timed.low, timed.high))
        return Decision(
            timed.value,
            timed.low,
            timed.high,
            interval="quartiles of timings",
            effect_mark=mark,
            verdict=_VERDICT_OF[mark],
            fails=EFFECT if mark == FAILS else None,
            reason=because,
            **counts,
        )
    effect = measured.comparisons[0].value
    ends = [_ends(comparison, effect.one_seed, confidence) for comparison in measured.comparisons]
    marks = _marks(claim, measured, ends)
    marked: dict[str, Any] = {f"{what}_mark": mark for what, mark in marks.items()}
    decision = replace(_columns(measured, ends), **marked)
    undefined = None if _is_defined(measured) else f"undefined: {claim.undefined}"
    if effect.one_seed or effect.few_texts:
        for name, mark in marked.items():
            marked[name] = UNCLEAR if mark in (HOLDS, FAILS) else mark
        decision = replace(decision, **marked)
    if effect.one_seed:
        return replace(
            decision,
            interval="test texts",
            reason=_joined(undefined, ONE_SEED, because),
            remedy="seeds: [0, 1, 2, 3]",
        )
    if undefined:
        return replace(decision, verdict=UNDECIDED, reason=_joined(undefined, because))
    if effect.few_texts:
        few = f"too few texts: {decision.texts} distinct ones in {decision.seeds} seeds"
        return replace(
            decision,
            verdict=UNDECIDED,
            interval=_BOTH,
            reason=_joined(few, because),
            remedy="test_examples: 16",
        )
    fails = [EFFECT] if marks[EFFECT] == FAILS else [w for w in marks if marks[w] == FAILS]
    verdict = (
        UNTRAINED_TOO
        if fails == [NULL] and marks[EFFECT] == HOLDS
        else NOT_SUPPORTED
        if fails
        else UNDECIDED
        if UNCLEAR in marks.values()
        else NOT_COMPARED
        if MISSING in marks.values()
        else SUPPORTED
    )
    return replace(
        decision,
        p_value=_p_value(measured.comparisons, MISSING not in marks.values(), verdict),
        interval=_BOTH,
        verdict=verdict,
        fails=", ".join(fails) or None,
        reason=_joined(_failed(measured, ends), _carried(measured), because),
        remedy=remedy if verdict == NOT_COMPARED else None,
    )


_BOTH = "seeds and test texts"  # what an interval covers
Ends = tuple[float, float]


def _ends(comparison: Comparison, one_seed: bool, confidence: float) -> Ends:
    """The interval of a comparison; NaN if it has one seed, and the effect has several."""
    if comparison.value.one_seed and not one_seed:
        return np.nan, np.nan
    low, high = comparison.value.interval(confidence)
    return float(low[0]), float(high[0])


def _p_value(comparisons: Sequence[Comparison], is_complete: bool, verdict: str) -> float | None:
    """Of a claim's verdict, two-sided; None if a comparison is missing that could support it.

    All comparisons have to be above 0, so the largest p value counts (Berger 1982). If one is below
    0, it may refute the claim, so the smallest of those below 0 counts, times their number
    (Bonferroni). That a claim holds for an untrained network too says that its effect is above 0 as
    well, so the larger of the two counts.
    """
    signs = [float(comparison.value.values[0]) for comparison in comparisons]
    found = [
        1.0 if comparison.value.one_seed else float(comparison.value.p_value()[0])
        for comparison in comparisons
    ]
    known = [1.0 if np.isnan(p_value) else p_value for p_value in found]
    against = [p_value for p_value, sign in zip(known, signs, strict=True) if not sign > 0]
    if against:
        found_against = min(1.0, len(comparisons) * min(against))
        return max(found_against, known[0]) if verdict == UNTRAINED_TOO else found_against
    return max(known) if is_complete else None


def _carried(measured: Measured) -> str | None:
    """The seed without which less than half of the effect remains."""
    effect = measured.comparisons[0].value
    total = float(effect.values[0])
    for stratum, names in zip(effect.strata, measured.draws, strict=True):
        without = stratum.made(stratum.without_seed)[:, 0]
        for name, rest in zip(names, without, strict=True):
            if rest * np.sign(total) < abs(total) / 2:
                return f"without seed {name}, less than half of the effect remains"
    return None


def _columns(measured: Measured, ends: Sequence[Ends]) -> Decision:
    """Values and intervals; of several twins, the one that the effect exceeds least clearly."""
    decision = Decision(examples=measured.examples, texts=measured.texts, seeds=measured.seeds)
    closest = (len(_ORDER), np.inf)
    for comparison, (low, high) in zip(measured.comparisons, ends, strict=True):
        value = _known(float(comparison.value.values[0]))
        low_known, high_known = _known(low), _known(high)
        clarity = (_ORDER.index(_mark((low, high))), -np.inf if low_known is None else low)
        if comparison.what == EFFECT:
            decision = replace(decision, effect=value, low=low_known, high=high_known)
            continue
        assert comparison.against is not None
        against = _known(float(comparison.against.values[0]))
        if comparison.what == CONTROL:
            decision = replace(
                decision,
                control_effect=against,
                over_control=value,
                over_control_low=low_known,
                over_control_high=high_known,
            )
        elif clarity < closest:
            closest = clarity
            decision = replace(
                decision,
                null_effect=against,
                over_null=value,
                over_null_low=low_known,
                over_null_high=high_known,
            )
    return decision


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


_FAILED = {
    EFFECT: ("the effect is not above 0", "the effect is not clearly above 0"),
    CONTROL: ("not above its control", "not clearly above its control"),
    NULL: ("not above an untrained network", "not clearly above an untrained network"),
}


# Of what the effect is not above, if the effect itself is above 0.
_ALSO_TRUE = {CONTROL: "also true of its control", NULL: "also true of an untrained network"}
_ORDER = (FAILS, UNCLEAR, HOLDS)  # of several twins, the least clear one counts
_VERDICT_OF = {HOLDS: SUPPORTED, FAILS: NOT_SUPPORTED, UNCLEAR: UNDECIDED}


def _mark(ends: Ends) -> str:
    """Of an interval; unclear as well if it has a value in fewer than two seeds of a task."""
    low, high = ends
    return HOLDS if low > 0 else FAILS if high <= 0 else UNCLEAR


def _marks(claim: Claim, measured: Measured, ends: Sequence[Ends]) -> dict[str, str]:
    """The marks of effect, control, and null; of several twins, the least clear one."""
    marks = {
        EFFECT: UNCLEAR,
        CONTROL: MISSING if claim.control.measure is not None else NONE,
        NULL: MISSING if claim.null == UNTRAINED else NONE,
    }
    for what in marks:
        found = [
            _mark(interval)
            for comparison, interval in zip(measured.comparisons, ends, strict=True)
            if comparison.what == what
        ]
        if found:
            marks[what] = min(found, key=_ORDER.index)
    return marks


def _failed(measured: Measured, ends: Sequence[Ends]) -> str | None:
    """Which comparisons do not hold, those that refute the claim first."""
    refuted, unclear = [], []
    also_true = _ALSO_TRUE if _mark(ends[0]) == HOLDS else {}
    for comparison, (low, high) in zip(measured.comparisons, ends, strict=True):
        at_or_below, not_clearly = _FAILED[comparison.what]
        if np.isnan(low):
            unclear.append(f"{not_clearly}: it has a value in fewer than two seeds of a task")
        elif high <= 0 and comparison.what == EFFECT:
            return at_or_below
        elif high <= 0:
            refuted.append(also_true.get(comparison.what, at_or_below))
        elif low <= 0:
            unclear.append(not_clearly)
    return "; ".join(dict.fromkeys([*refuted, *unclear])) or None


def _joined(*reasons: str | None) -> str | None:
    return "; ".join(reason for reason in reasons if reason) or None


def corrected(decisions: Sequence[Decision], confidence: float) -> list[Decision]:
    """Verdicts of which, of all that are decided in a run, few are expected to be false.

    p values of all claims that may be supported or refuted are corrected together, for their false
    discovery rate. A verdict that does not remain is undecided.

    Source: Benjamini and Hochberg 1995.
    """
    tested = [d.p_value for d in decisions if d.p_value is not None]
    adjusted = iter(stats.false_discovery_control(tested) if tested else ())
    result = []
    for decision in decisions:
        if decision.p_value is None:
            result.append(decision)
            continue
        p_corrected = float(next(adjusted))
        changed = replace(decision, p_corrected=p_corrected)
        if decision.verdict in _DECIDED and p_corrected > 1 - confidence:
            because = f"not after the correction for the run's {len(tested)} claims"
            changed = replace(
                changed, verdict=UNDECIDED, fails=None, reason=_joined(because, decision.reason)
            )
        result.append(changed)
    return result


_DECIDED = (SUPPORTED, UNTRAINED_TOO, NOT_SUPPORTED)


def with_disagreement(overall: Decision, of_tasks: Mapping[str, Decision]) -> Decision:
    """The decision over tasks, mixed where one task's interval is above 0 and another's is not.

    This holds for the effect, or for its difference from control or null.
    """
    for what in (EFFECT, CONTROL, NULL):
        marks = {task: getattr(decision, f"{what}_mark") for task, decision in of_tasks.items()}
        above, not_above = (
            ", ".join(task for task, mark in marks.items() if mark == wanted)
            for wanted in (HOLDS, FAILS)
        )
        if above and not_above and overall.interval == _BOTH:
            said = f"tasks disagree: {_ABOVE[what]} for {above}, not for {not_above}"
            return replace(overall, verdict=MIXED, fails=None, reason=_joined(said, overall.reason))
    return overall


_ABOVE = {
    EFFECT: "the effect is above 0",
    CONTROL: "it is above its control",
    NULL: "it is above an untrained network",
}
