"""Decisions on a claim: intervals, marks, the verdict with its reason, and the correction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from anchorflow.claims.claim import UNTRAINED, Claim, Timed
from anchorflow.claims.measured import Comparison, Measured
from anchorflow.claims.verdicts import (
    CONTROL,
    EFFECT,
    FAILS,
    HOLDS,
    MISSING,
    MIXED,
    NONE,
    NOT_COMPARED,
    NOT_CORRECTED,
    NOT_MEASURED,
    NOT_SUPPORTED,
    NULL,
    SUPPORTED,
    TOO_FEW,
    UNCLEAR,
    UNDECIDED,
    UNTRAINED_TOO,
    WORDS,
)

ONE_SEED = (
    "one seed says nothing about other demonstrations; the interval is over test texts, with these "
    "demonstrations"
)
_BOTH = "seeds and test texts"  # what an interval covers
_ORDER = (FAILS, UNCLEAR, HOLDS)  # of several twins, the least clear one counts
_VERDICT_OF = {HOLDS: SUPPORTED, FAILS: NOT_SUPPORTED, UNCLEAR: UNDECIDED}
_DECIDED = (SUPPORTED, UNTRAINED_TOO, NOT_SUPPORTED)


@dataclass(frozen=True)
class Bounded:
    """An effect, or its difference from control or null, with its interval; NaN if unknown.

    ``against`` is what the control or the untrained network measures.
    """

    what: str
    value: float
    low: float
    high: float
    against: float = np.nan
    p_value: float = 1.0  # two-sided

    @classmethod
    def of(cls, comparison: Comparison, one_seed: bool, confidence: float) -> "Bounded":
        """Without an interval if it has one seed, and the effect, unlike ``one_seed``, several."""
        estimate, against, ends = comparison.value, comparison.against, (np.nan, np.nan)
        if one_seed or not estimate.one_seed:
            low, high = estimate.interval(confidence)
            ends = float(low[0]), float(high[0])
        known = 1.0 if estimate.one_seed else float(estimate.p_value()[0])
        return cls(
            comparison.what,
            float(estimate.values[0]),
            *ends,
            np.nan if against is None else float(against.values[0]),
            1.0 if np.isnan(known) else known,
        )

    @property
    def mark(self) -> str:
        """Unclear as well if it has a value in fewer than two seeds of a task."""
        return HOLDS if self.low > 0 else FAILS if self.high <= 0 else UNCLEAR

    @property
    def clarity(self) -> tuple[int, float]:
        """Higher where it is more clearly above 0."""
        return _ORDER.index(self.mark), -np.inf if np.isnan(self.low) else self.low


Bounds = Sequence[Bounded]  # of a claim, the effect first; one for each untrained network


@dataclass(frozen=True)
class Verdict:
    """A verdict with its reasons, and the configuration that would change it."""

    name: str = NOT_MEASURED
    fails: tuple[str, ...] = ()  # which of effect, control, and null
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision:
    """What measurements decide on a claim; :meth:`columns` is its part of a row of ``claims``."""

    verdict: Verdict = Verdict()
    marks: Mapping[str, str] = field(
        default_factory=lambda: {EFFECT: MISSING, CONTROL: NONE, NULL: NONE}
    )
    bounds: Bounds = ()
    interval: str | None = None  # what the intervals cover
    p_value: float | None = None
    p_corrected: float | None = None
    measured: Measured = field(default_factory=Measured)

    def columns(self) -> dict[str, float | str | None]:
        """The columns of the table; of several twins, the one exceeded least clearly."""
        columns: dict[str, float | str | None] = {}
        for what in WORDS:
            unknown = Bounded(what, np.nan, np.nan, np.nan)
            found = [each for each in self.bounds if each.what == what]
            least = min(found, key=lambda each: each.clarity, default=unknown)
            names = ("effect", "low", "high")
            if what != EFFECT:
                columns[f"{what}_effect"] = _known(least.against)
                names = (f"over_{what}", f"over_{what}_low", f"over_{what}_high")
            columns |= zip(names, map(_known, (least.value, least.low, least.high)), strict=True)
            columns[f"{what}_mark"] = self.marks[what]
        return columns | {
            "p_value": self.p_value,
            "p_corrected": self.p_corrected,
            "examples": self.measured.examples,
            "texts": self.measured.texts,
            "seeds": self.measured.seeds,
            "interval": self.interval,
            "verdict": self.verdict.name,
            "fails": ", ".join(self.verdict.fails) or None,
            "reason": "; ".join(self.verdict.reasons) or None,
            "remedy": "; ".join(self.verdict.remedies) or None,
        }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def decide(claim: Claim, measured: Measured, confidence: float) -> Decision:
    """Effect, intervals, marks and verdict, before the correction over the run's claims.

    With one seed, or hardly more texts than seeds, nothing is decided.
    """
    if not measured.is_measured:
        return Decision(Verdict(NOT_MEASURED, (), measured.reasons, measured.remedies))
    if measured.timed is not None:
        return _of_times(measured, measured.timed)
    effect = measured.comparisons[0].value
    bounds = [Bounded.of(each, effect.one_seed, confidence) for each in measured.comparisons]
    marks = _marks(claim, bounds)
    undefined = () if measured.is_defined else (f"undefined: {claim.undefined}",)
    if effect.one_seed or effect.few_texts:
        marks = {what: UNCLEAR if mark in _ORDER else mark for what, mark in marks.items()}
    if effect.one_seed:
        reasons = (*undefined, ONE_SEED, *measured.reasons)
        verdict = Verdict(NOT_MEASURED, (), reasons, ("seeds: [0, 1, 2, 3]",))
        return Decision(verdict, marks, bounds, "test texts", measured=measured)
    if undefined:
        verdict = Verdict(UNDECIDED, (), (*undefined, *measured.reasons))
        return Decision(verdict, marks, bounds, measured=measured)
    if effect.few_texts:
        few = f"{TOO_FEW}: {measured.texts} distinct ones in {measured.seeds} seeds"
        verdict = Verdict(UNDECIDED, (), (few, *measured.reasons), ("test_examples: 16",))
        return Decision(verdict, marks, bounds, _BOTH, measured=measured)
    verdict = _verdict(marks)
    complete = replace(
        verdict,
        reasons=(*_not_above(bounds), *_carried(measured), *measured.reasons),
        remedies=measured.remedies if verdict.name == NOT_COMPARED else (),
    )
    p_value = _p_value(bounds, MISSING not in marks.values(), verdict.name)
    return Decision(complete, marks, bounds, _BOTH, p_value, measured=measured)


def _of_times(measured: Measured, timed: Timed) -> Decision:
    """Quartiles decide as an interval does; they have no p value."""
    bounds = [Bounded(EFFECT, timed.value, timed.low, timed.high)]
    mark = bounds[0].mark
    verdict = Verdict(_VERDICT_OF[mark], (EFFECT,) if mark == FAILS else (), measured.reasons)
    marks = {EFFECT: mark, CONTROL: NONE, NULL: NONE}
    return Decision(verdict, marks, bounds, "quartiles of timings", measured=measured)


def _marks(claim: Claim, bounds: Bounds) -> dict[str, str]:
    """The marks of effect, control, and null; of several twins, the least clear one."""
    needed = {
        EFFECT: UNCLEAR,
        CONTROL: MISSING if claim.control.measure is not None else NONE,
        NULL: MISSING if claim.null == UNTRAINED else NONE,
    }
    found = {what: [each.mark for each in bounds if each.what == what] for what in needed}
    return {what: min(found[what], key=_ORDER.index, default=needed[what]) for what in needed}


def _verdict(marks: Mapping[str, str]) -> Verdict:
    """The verdict that follows from the marks of effect, control, and null.

    An effect at or below 0 refutes a claim, whatever its control and null; so does a difference
    from its control. If only the difference from the null is at or below 0, the claim holds for an
    untrained network too. Where an interval contains 0, the claim is undecided; a control or null
    that was not measured counts only where everything else holds.
    """
    fails = tuple(what for what, mark in marks.items() if mark == FAILS)
    if EFFECT in fails:
        return Verdict(NOT_SUPPORTED, (EFFECT,))
    if fails == (NULL,) and marks[EFFECT] == HOLDS:
        return Verdict(UNTRAINED_TOO, fails)
    if fails:
        return Verdict(NOT_SUPPORTED, fails)
    if UNCLEAR in marks.values():
        return Verdict(UNDECIDED)
    return Verdict(NOT_COMPARED if MISSING in marks.values() else SUPPORTED)


def _p_value(bounds: Bounds, is_complete: bool, verdict: str) -> float | None:
    """Of a claim's verdict, two-sided; None if a comparison is missing that could support it.

    All comparisons have to be above 0, so the largest p value counts (Berger 1982). If one is below
    0, it may refute the claim, so the smallest of those below 0 counts, times their number
    (Bonferroni). That a claim holds for an untrained network too says that its effect is above 0 as
    well, so the larger of the two counts.
    """
    against = [each.p_value for each in bounds if not each.value > 0]
    if against:
        found_against = min(1.0, len(bounds) * min(against))
        effect = bounds[0].p_value
        return max(found_against, effect) if verdict == UNTRAINED_TOO else found_against
    return max(each.p_value for each in bounds) if is_complete else None


def _not_above(bounds: Bounds) -> tuple[str, ...]:
    """Which comparisons do not hold, those that refute the claim first."""
    if bounds[0].mark == FAILS:
        return (WORDS[EFFECT].not_above,)
    refuted, unclear = [], []
    for each in bounds:
        words = WORDS[each.what]
        if np.isnan(each.low):
            few = "it has a value in fewer than two seeds of a task"
            unclear.append(f"{words.not_clearly_above}: {few}")
        elif each.mark == FAILS:
            refuted.append(words.also_true if bounds[0].mark == HOLDS else words.not_above)
        elif each.mark == UNCLEAR:
            unclear.append(words.not_clearly_above)
    return tuple(dict.fromkeys([*refuted, *unclear]))


def _carried(measured: Measured) -> tuple[str, ...]:
    """The seed without which less than half of the effect remains."""
    effect = measured.comparisons[0].value
    total = float(effect.values[0])
    for stratum, names in zip(effect.strata, measured.draws, strict=True):
        without = stratum.made(stratum.without_seed)[:, 0]
        for name, rest in zip(names, without, strict=True):
            if rest * np.sign(total) < abs(total) / 2:
                return (f"without seed {name}, less than half of the effect remains",)
    return ()


def corrected(decisions: Sequence[Decision], confidence: float) -> list[Decision]:
    """Verdicts of which, of all that are decided in a run, few are expected to be false.

    p values of all claims that may be supported or refuted are corrected together, for their false
    discovery rate. A verdict that does not remain is undecided.

    Source: Benjamini and Hochberg 1995.
    """
    tested = [decision.p_value for decision in decisions if decision.p_value is not None]
    adjusted = iter(stats.false_discovery_control(tested) if tested else ())
    lost = f"{NOT_CORRECTED} for the run's {len(tested)} claims"
    result = []
    for decision in decisions:
        if decision.p_value is not None:
            p_corrected, verdict = float(next(adjusted)), decision.verdict
            if verdict.name in _DECIDED and p_corrected > 1 - confidence:
                reasons = (lost, *verdict.reasons)
                verdict = replace(verdict, name=UNDECIDED, fails=(), reasons=reasons)
            decision = replace(decision, verdict=verdict, p_corrected=p_corrected)
        result.append(decision)
    return result


def with_disagreement(overall: Decision, of_tasks: Mapping[str, Decision]) -> Decision:
    """The decision over tasks, mixed where one task's interval is above 0 and another's is not.

    This holds for the effect, or for its difference from control or null, in tasks whose own
    verdict remains decided after the correction. Two effects above 0 agree, however different.
    """
    if overall.interval != _BOTH:
        return overall
    decided = {task: d for task, d in of_tasks.items() if d.verdict.name in _DECIDED}
    for what, words in WORDS.items():
        above, not_above = (
            ", ".join(task for task, decision in decided.items() if decision.marks[what] == mark)
            for mark in (HOLDS, FAILS)
        )
        if above and not_above:
            said = f"tasks disagree: {words.above} for {above}, not for {not_above}"
            reasons = (said, *overall.verdict.reasons)
            mixed = replace(overall.verdict, name=MIXED, fails=(), reasons=reasons)
            return replace(overall, verdict=mixed)
    return overall
