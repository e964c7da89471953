"""What is measured of a claim: its effect, and what is left of it over its control and null."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anchorflow.claims.claim import UNTRAINED, Claim, NotMeasured, Run, Sampled, Timed
from anchorflow.claims.effects import minus
from anchorflow.claims.verdicts import CONTROL, EFFECT, NULL
from anchorflow.statistics.estimates import Estimate, average


@dataclass(frozen=True)
class Comparison:
    """An effect, or its difference from what it has to exceed, for one task or over tasks."""

    what: str  # EFFECT, CONTROL, or NULL
    name: str  # of the twin; empty for effect and control
    value: Estimate  # of the effect, or of the difference
    against: Estimate | None = None  # the same measure of the control or the twin

    @property
    def is_defined(self) -> bool:
        """Whether it has a value, as the effect of a network with one answer may not."""
        return not np.isnan(self.value.values).all()


@dataclass(frozen=True)
class Measured:
    """The measurements of a claim for one task, or over tasks."""

    comparisons: tuple[Comparison, ...] = ()  # the effect comes first
    examples: int = 0
    texts: int | None = 0
    seeds: int = 0
    draws: tuple[tuple[str, ...], ...] = ()  # names of the seeds of each task
    timed: Timed | None = None
    reasons: tuple[str, ...] = ()  # why something is not measured or is left out
    remedies: tuple[str, ...] = ()  # lines of configuration that would measure what is missing

    @property
    def is_measured(self) -> bool:
        """Whether the claim has an effect."""
        return bool(self.comparisons) or self.timed is not None

    @property
    def is_defined(self) -> bool:
        """Whether the effect has a value."""
        return self.timed is not None or self.comparisons[0].is_defined


def measure_claim(claim: Claim, run: Run) -> Measured:
    """The effect of a claim for one task, and its differences from control and null."""
    try:
        effect = claim.measure(run)
    except NotMeasured as why:
        return Measured(reasons=(str(why),), remedies=_remedies(claim, why))
    if isinstance(effect, Timed):
        return Measured(examples=effect.runs, texts=None, seeds=1, timed=effect)
    own = Comparison(EFFECT, "", _rounded(effect.effect))
    found = Differences()
    if own.is_defined:
        control, null = _over_control(claim, run, effect), _over_twins(claim, run, effect)
        found = Differences(
            control.comparisons + null.comparisons,
            control.reasons + null.reasons,
            control.remedies + null.remedies,
        )
    return Measured(
        (own, *found.comparisons),
        effect.examples,
        effect.texts,
        len(effect.by_seed),
        (tuple(map(str, effect.by_seed)),),
        reasons=found.reasons,
        remedies=found.remedies,
    )


class Differences(NamedTuple):
    """What is left of an effect over control or null, and why there is nothing to compare with.

    A difference without a value, for example from a network that always answers the same, neither
    supports nor refutes a claim, and is left out.
    """

    comparisons: tuple[Comparison, ...] = ()
    reasons: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


def _over_control(claim: Claim, run: Run, effect: Sampled) -> Differences:
    if claim.control.measure is None:
        return Differences()
    try:
        control = _over(CONTROL, "", effect, claim.control.measure(run))
    except NotMeasured as why:
        reason = f"its control was not measured: {why}"
        return Differences(reasons=(reason,), remedies=_remedies(claim, why))
    if not control.is_defined:
        return Differences(reasons=("its control is undefined",))
    return Differences((control,))


def _over_twins(claim: Claim, run: Run, effect: Sampled) -> Differences:
    if claim.null != UNTRAINED:
        return Differences()
    twins = []
    for name, twin in run.untrained.items():
        try:
            twins.append(_over(NULL, name, effect, claim.measure(twin), all_texts=True))
        except NotMeasured:
            continue
    if not twins:
        wanted = f"controls.untrained and, in controls.stages, {claim.measured_by}"
        return Differences((), ("no untrained twin was measured for this claim",), (wanted,))
    return Differences(
        tuple(twin for twin in twins if twin.is_defined),
        tuple(f"undefined for {t.name}: {claim.undefined}" for t in twins if not t.is_defined),
    )


def _remedies(claim: Claim, why: NotMeasured) -> tuple[str, ...]:
    line = why.remedy or claim.asked_for.get(why.table, "")
    return (line,) if line else ()


def _over(
    what: str, name: str, effect: Sampled, other: Sampled | Timed, all_texts: bool = False
) -> Comparison:
    assert isinstance(other, Sampled)
    difference = minus(effect, other, all_texts)
    return Comparison(what, name, _rounded(difference.effect), _rounded(other.effect))


def _rounded(estimate: Estimate) -> Estimate:
    """Rounded to 12 digits, since sums in different orders of equal values may differ by less."""
    return estimate.map(lambda values: np.round(values, 12) + 0.0)  # 0.0 makes -0 a 0


def over_tasks(of_tasks: Mapping[str, Measured]) -> Measured:
    """The mean over the tasks in which a claim has an effect; its reasons name the others."""
    tested = {task: known for task, known in of_tasks.items() if known.is_measured}
    if not tested:
        return Measured(
            reasons=_distinct(known.reasons for known in of_tasks.values()),
            remedies=_distinct(known.remedies for known in of_tasks.values()),
        )
    defined = {task: known for task, known in tested.items() if known.is_defined} or tested
    timed = [known.timed for known in tested.values() if known.timed]
    comparisons = () if timed else _averages([*defined.values()])
    reasons = [*_distinct(known.reasons for known in defined.values())]
    some = {each.what for known in defined.values() for each in known.comparisons}
    if not timed and NULL in some - {each.what for each in comparisons}:
        reasons.append("no untrained twin has a value in every task")
    if lacking := [task for task in of_tasks if task not in defined]:
        reasons.append(f"without {', '.join(lacking)}")
    if len(of_tasks) == 1:
        reasons.append("the run has one task")
    return Measured(
        comparisons,
        sum(known.examples for known in defined.values()),
        None if timed else sum(known.texts or 0 for known in defined.values()),
        max(known.seeds for known in defined.values()),
        tuple(
            tuple(f"{seed} of {task}" for seeds in known.draws for seed in seeds)
            for task, known in defined.items()
        ),
        _over_timed(timed) if timed else None,
        tuple(reasons),
        _distinct(known.remedies for known in defined.values()),
    )


def _distinct(lines: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line for some in lines for line in some))


def _over_timed(timed: Sequence[Timed]) -> Timed:
    """The mean of the tasks, with the widest bounds."""
    return Timed(
        float(np.mean([each.value for each in timed])),
        min(each.low for each in timed),
        max(each.high for each in timed),
        sum(each.runs for each in timed),
    )


def _averages(measured: Sequence[Measured]) -> tuple[Comparison, ...]:
    """The comparisons that all tasks have, averaged."""
    averaged = []
    for first in measured[0].comparisons:
        parts = [
            each
            for of_task in measured
            for each in of_task.comparisons
            if (each.what, each.name) == (first.what, first.name)
        ]
        if len(parts) == len(measured):
            against = [each.against for each in parts if each.against is not None]
            value = average([each.value for each in parts])
            mean = average(against) if against else None
            averaged.append(Comparison(first.what, first.name, value, mean))
    return tuple(averaged)
