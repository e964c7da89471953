"""Decisions on claims: effect, control, null, several tasks, families; and how claims are added.

Every claim has a test of its own in the folder ``sections``.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import anchorflow.claims.sections as package
from anchorflow.analyses.kernel.schema import SEGMENTED
from anchorflow.analyses.kernel.segments import segment_names
from anchorflow.analyses.probes.measure import measure_probes
from anchorflow.analyses.retrieval.summarize import CHOICES
from anchorflow.claims.claim import Claim, Control, NotMeasured, Run, Sampled, Timed
from anchorflow.claims.decision import (
    ONE_SEED,
    Decision,
    corrected,
    decide,
    measure_claim,
    over_tasks,
    with_disagreement,
)
from anchorflow.claims.effects import mean_of_examples, minus
from anchorflow.claims.plot import plot_claims
from anchorflow.claims.schema import CLAIMS
from anchorflow.claims.summarize import DISCRIMINATING, PAPER, UNTRAINED, load_claims
from anchorflow.claims.tabulate import tabulate_claims
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
    VERDICTS,
)
from anchorflow.config import registry
from anchorflow.config.errors import InputError
from anchorflow.config.stages import ANALYSES, read_by_claims
from anchorflow.depth import first_third, last_third
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.statistics.estimates import SeedStatistic, weighted_mean_where_defined
from anchorflow.store.parquet import read_table
from checkout import ROOT, Checkout
from constructed import confusion, retrieval, reweighting
from constructed.attention import deep_tables
from constructed.claims import (
    Row,
    Tables,
    attention_and_similarity,
    cells,
    compression,
    encoder,
    flow,
    flows_and_controls,
    isolation,
    kernel,
    of_claim,
    summarize,
)
from constructed.heads import ablation, beta, heads
from constructed.interventions import cutoff, cuts, faithfulness, knockout, transplant
from constructed.kernel import states
from constructed.rows import frame
from constructed.timing import timings_of

FOLDER = "claims/sections"
NAN = float("nan")

# Of each seed, the values of its texts. Three seeds whose means are 0.1 apart have an interval of
# 4.303 (Student's t with two degrees of freedom) times 0.1 / √3 on either side.
Values = Mapping[int, Sequence[float]]
HALF = float(stats.t.isf(0.025, 2)) * 0.1 / np.sqrt(3)
TEXTS = 100  # of each seed
LEAST = float(stats.t.isf(0.025, 2)) / (3 * TEXTS + 2)  # half an interval where no text differs


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


# What an effect is in the model's run, and in that of each of its twins.
Effects = Mapping[str, Values]


def run_of(twins: Sequence[str] = (), task: str = "own") -> Run:
    return Run(task, {}, "mask", 0.05, {twin: Run(twin, {}, "mask", 0.05) for twin in twins})


def claim_of(effects: Effects, control: Values | None = None, null: str = "") -> Claim:
    """A claim with these effects by task, where a twin's run has its name for a task."""

    def measure(run: Run) -> Sampled:
        if run.task not in effects:
            raise NotMeasured("the run lacks it")
        return sampled(effects[run.task])

    described = Control("something else", (lambda run: sampled(control)) if control else None)
    kind = {"undefined": "none there", "figure": "flow"}
    return Claim("a", "A.", "[A] §1", "a", "1", measure, described, null, **kind)


def decided(effect: Values, control: Values | None = None, **twins: Values) -> Decision:
    """What is said of one task, before the correction for the family."""
    claim = claim_of({"own": effect, **twins}, control, UNTRAINED if twins else "")
    return decide(claim, measure_claim(claim, run_of(list(twins))), 0.95)


# --- one task ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("means", "verdict", "reason"),
    [
        ((0.2, 0.3, 0.4), SUPPORTED, None),
        ((0.1, 0.2, 0.3), UNDECIDED, "the effect is not clearly above 0"),
        ((-0.3, -0.2, -0.1), UNDECIDED, "the effect is not clearly above 0"),
        ((-0.4, -0.3, -0.2), NOT_SUPPORTED, "the effect is not above 0"),
        ((-0.1, -0.1, -0.1), NOT_SUPPORTED, "the effect is not above 0"),
        ((0.0, 0.0, 0.0), UNDECIDED, "the effect is not clearly above 0"),
    ],
)
def test_an_effect_has_to_be_above_0(
    means: Sequence[float], verdict: str, reason: str | None
) -> None:
    found = decided(seeds(*means))
    mean, half = means[1], HALF if means[0] != means[1] else LEAST
    assert (found.verdict, found.reason) == (verdict, reason)
    assert (found.effect, found.low, found.high) == pytest.approx((mean, mean - half, mean + half))
    assert (found.examples, found.seeds) == (3 * TEXTS, 3)
    assert found.interval == "seeds and test texts"
    deviations = abs(mean) / (0.1 / np.sqrt(3) if half == HALF else 1 / (3 * TEXTS + 2))
    assert found.p_value == pytest.approx(2 * stats.t.sf(deviations, 2))


@pytest.mark.parametrize(
    ("control", "twin", "verdict", "reason"),
    [
        # The effect is 0.5, 0.6, 0.7; 0.2 above what has its ups and downs, always.
        ((0.3, 0.4, 0.5), (0.3, 0.4, 0.5), SUPPORTED, None),
        ((0.7, 0.8, 0.9), (0.3, 0.4, 0.5), NOT_SUPPORTED, "also true of its control"),
        ((0.5, 0.6, 0.7), (0.3, 0.4, 0.5), UNDECIDED, "not clearly above its control"),
        ((0.3, 0.4, 0.5), (0.5, 0.6, 0.7), UNDECIDED, "not clearly above an untrained network"),
        ((0.3, 0.4, 0.5), (0.9, 1.0, 1.1), UNTRAINED_TOO, "also true of an untrained network"),
        ((0.4, 0.4, 0.4), (0.3, 0.4, 0.5), UNDECIDED, "not clearly above its control"),
        ((0.3, 0.4, 0.5), (0.4, 0.4, 0.4), UNDECIDED, "not clearly above an untrained network"),
        (
            (0.4, 0.4, 0.4),
            (0.7, 0.8, 0.9),
            UNTRAINED_TOO,
            "also true of an untrained network; not clearly above its control",
        ),
    ],
)
def test_an_effect_has_to_be_above_its_control_and_an_untrained_network(
    control: Sequence[float], twin: Sequence[float], verdict: str, reason: str | None
) -> None:
    found = decided(seeds(0.5, 0.6, 0.7), seeds(*control), twin=seeds(*twin))
    assert (found.verdict, found.reason) == (verdict, reason)
    assert (found.effect, found.control_effect, found.null_effect) == pytest.approx(
        (0.6, control[1], twin[1])
    )
    for means, low, high in (
        (control, found.over_control_low, found.over_control_high),
        (twin, found.over_null_low, found.over_null_high),
    ):
        half = HALF if means[0] == means[1] else LEAST  # paired by seed: what both have cancels
        assert (low, high) == pytest.approx((0.6 - means[1] - half, 0.6 - means[1] + half))
    assert found.p_value is not None
    assert (found.p_value < 0.05) == (verdict != UNDECIDED)
    # The sentence says in words what the marks say.
    marks = {"control": found.control_mark, "null": found.null_mark}
    named = {"control": "its control", "null": "an untrained network"}
    assert found.effect_mark == HOLDS
    for what, mark in marks.items():
        assert (mark == FAILS) == (f"also true of {named[what]}" in (reason or ""))
        assert (mark == UNCLEAR) == (f"not clearly above {named[what]}" in (reason or ""))
    failing = [what for what, mark in marks.items() if mark == FAILS]
    assert found.fails == (", ".join(failing) or None)


def test_an_effect_below_0_is_not_said_to_be_true_of_anything() -> None:
    found = decided(seeds(-0.5, -0.5, -0.5), seeds(0.1, 0.1, 0.1), twin=seeds(0, 0, 0))
    assert (found.verdict, found.reason) == (NOT_SUPPORTED, "the effect is not above 0")
    assert (found.effect_mark, found.fails) == (FAILS, "effect")


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


def test_differences_are_of_the_texts_that_both_have() -> None:
    first, second = (
        Sampled({0: SeedStatistic(weighted_mean_where_defined(values), np.array(texts))})
        for values, texts in (
            (np.array([[9.0], [1], [2]]), [0, 1, 2]),
            (np.array([[0.0], [0], [9]]), [1, 2, 3]),
        )
    )
    difference = minus(first, second)
    assert difference.effect.values.tolist() == [1.5]
    assert difference.by_seed[0].texts.tolist() == [1, 2]


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
    assert difference.examples == 1
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


def test_a_seed_without_a_value_does_not_count() -> None:
    found = decided({**seeds(0.2, 0.3, 0.4), 3: [NAN, NAN]})
    assert found.effect == pytest.approx(0.3)
    assert (found.low, found.verdict) == (pytest.approx(0.3 - HALF), SUPPORTED)


def test_one_seed_gives_an_effect_and_an_interval_over_texts_and_no_verdict() -> None:
    found = decided({0: [0.2, 0.4]}, {0: [0.1, 0.1]}, twin={0: [0.1, 0.1]})
    half = stats.t.isf(0.025, 1) * np.sqrt(0.02 / 2)  # two texts: one degree of freedom
    assert (found.effect, found.low, found.high) == pytest.approx((0.3, 0.3 - half, 0.3 + half))
    assert (found.control_effect, found.null_effect) == pytest.approx((0.1, 0.1))
    assert (found.verdict, found.reason) == (NOT_MEASURED, ONE_SEED)
    assert (found.effect_mark, found.control_mark, found.null_mark) == (UNCLEAR,) * 3
    assert found.remedy == "seeds: [0, 1, 2, 3]"
    assert (found.interval, found.p_value) == ("test texts", None)
    undefined = decided({0: [NAN, NAN]})
    assert (undefined.verdict, undefined.effect) == (NOT_MEASURED, None)
    assert undefined.reason == f"undefined: none there; {ONE_SEED}"


def test_one_seed_of_a_twin_is_not_taken_for_several() -> None:
    found = decided(seeds(0.5, 0.6, 0.7), twin={0: [0.1, 0.1]})
    assert found.verdict == UNDECIDED
    assert found.reason == (
        "not clearly above an untrained network: it has a value in fewer than two seeds of a task"
    )
    assert (found.over_null_low, found.p_value) == (None, 1.0)


@pytest.mark.parametrize("values", [{}, {"tiny+shuffled-0": seeds(NAN, NAN, NAN)}])
def test_without_an_untrained_network_nothing_is_supported(values: Effects) -> None:
    claim = claim_of({"own": seeds(0.5, 0.6, 0.7), **values}, null=UNTRAINED)
    found = decide(claim, measure_claim(claim, run_of(["tiny+shuffled-0"])), 0.95)
    assert (found.verdict, found.null_mark) == (NOT_COMPARED, MISSING)
    assert (found.effect_mark, found.control_mark) == (HOLDS, NONE)
    lacking = "no untrained twin was measured for this claim"
    assert found.reason == ("undefined for tiny+shuffled-0: none there" if values else lacking)
    wanted = "controls.untrained and, in controls.stages, flow"
    assert found.remedy == (None if values else wanted)
    assert (found.null_effect, found.p_value) == (None, None)
    refuted = claim_of({"own": seeds(-0.5, -0.5, -0.5)}, null=UNTRAINED)
    below = decide(refuted, measure_claim(refuted, run_of()), 0.95)
    assert (below.verdict, below.fails, below.remedy) == (NOT_SUPPORTED, "effect", None)
    unclear = claim_of({"own": seeds(0.1, 0.2, 0.3)}, null=UNTRAINED)
    vague = decide(unclear, measure_claim(unclear, run_of()), 0.95)
    assert (vague.verdict, vague.effect_mark, vague.remedy) == (UNDECIDED, UNCLEAR, None)


def test_of_several_twins_the_one_that_is_exceeded_least_clearly_decides() -> None:
    effect = seeds(0.5, 0.6, 0.7)
    low, high, vague = seeds(0.1, 0.2, 0.3), seeds(0.4, 0.5, 0.6), seeds(0.3, 0.3, 0.3)
    found = decided(effect, first=low, second=high)
    assert (found.verdict, found.null_effect) == (SUPPORTED, pytest.approx(0.5))
    unclear = decided(effect, first=high, second=vague, third=low)  # 0.3 ± 0.248, and 0.1 ± 0
    assert unclear.null_effect == pytest.approx(0.3)
    higher = decided(effect, first=low, second=seeds(0.7, 0.8, 0.9))
    assert (higher.verdict, higher.null_effect) == (UNTRAINED_TOO, pytest.approx(0.8))
    alone = decided(effect, first=low, second={0: [0.1, 0.1]})
    assert (alone.verdict, alone.over_null_low) == (UNDECIDED, None)


def test_a_difference_is_that_of_the_seeds_in_common_and_not_of_the_two_numbers() -> None:
    """A twin has the first two of four seeds, in which the effect is 0.5 and 0.7."""
    found = decided(seeds(0.5, 0.7, 0.1, 0.1), twin=seeds(0.3, 0.5))
    assert (found.effect, found.null_effect) == pytest.approx((0.35, 0.4))
    assert found.over_null == pytest.approx(0.2)
    assert found.over_null_low <= found.over_null <= found.over_null_high


def test_what_is_not_clearly_above_0_is_not_true_of_a_control_too() -> None:
    unclear = decided(seeds(0.1, 0.2, 0.3), twin=seeds(0.4, 0.5, 0.6))
    assert unclear.reason == "not above an untrained network; the effect is not clearly above 0"
    held = decided(seeds(0.5, 0.6, 0.7), twin=seeds(0.7, 0.8, 0.9))
    assert held.reason == "also true of an untrained network"


@pytest.mark.parametrize("lacks", ["value", "table"])
def test_without_its_control_nothing_is_supported(lacks: str) -> None:
    def measure(run: Run) -> Sampled:
        if lacks == "table":
            raise NotMeasured("there is none", "more: {of: it}")
        return sampled(seeds(NAN, NAN, NAN))

    claim = claim_of({"own": seeds(0.5, 0.6, 0.7)})._replace(control=Control("another", measure))
    found = decide(claim, measure_claim(claim, run_of()), 0.95)
    said = {
        "value": "its control is undefined",
        "table": "its control was not measured: there is none",
    }
    assert (found.verdict, found.reason) == (NOT_COMPARED, said[lacks])
    assert (found.control_mark, found.p_value) == (MISSING, None)
    assert found.remedy == ("more: {of: it}" if lacks == "table" else None)


def test_an_undefined_effect_is_inconclusive_and_said() -> None:
    found = decided(seeds(NAN, NAN, NAN), seeds(0.1, 0.1, 0.1), twin=seeds(0, 0, 0))
    assert (found.verdict, found.reason) == (UNDECIDED, "undefined: none there")
    assert (found.effect, found.low, found.control_effect) == (None, None, None)
    one = decided({**seeds(NAN, NAN), 2: [0.3, 0.3]})
    assert (one.effect, one.low, one.verdict) == (pytest.approx(0.3), None, UNDECIDED)
    assert one.reason is not None
    assert one.reason.endswith("it has a value in fewer than two seeds of a task")


def test_no_difference_is_not_taken_for_one_by_rounding() -> None:
    third = 1 / 3
    found = decided(seeds(*[third] * 3), seeds(*[0.1 + 0.2 + third - 0.3] * 3))
    assert (found.over_control_low, found.over_control_high) == pytest.approx((-LEAST, LEAST))


def test_a_text_per_seed_or_fewer_texts_than_seeds_earn_no_verdict() -> None:
    """Two seeds of one text each, both 1, would otherwise be all but certain."""
    alone = decided({0: [1.0], 1: [1.0]})
    assert (alone.verdict, alone.effect_mark, alone.p_value) == (UNDECIDED, UNCLEAR, None)
    assert alone.reason == "too few texts: 2 distinct ones in 2 seeds"
    claim = claim_of({})._replace(
        measure=lambda run: sampled({seed: [1.0, 1.0] for seed in range(3)}, shared=True)
    )
    shared = decide(claim, measure_claim(claim, run_of()), 0.95)
    assert shared.reason == "too few texts: 2 distinct ones in 3 seeds"


def test_a_seed_that_carries_the_effect_is_named() -> None:
    found = decided({0: [0.1, 0.12] * 9, 1: [0.1, 0.12] * 9, 2: [0.9, 0.92] * 9})
    assert found.reason == (
        "the effect is not clearly above 0; without seed 2, less than half of the effect remains"
    )
    tasks = claim_of({"one": {0: [0.0, 0.1], 1: [0.9, 1.0]}, "other": {0: [0.0, 0.1], 1: [0.1, 0]}})
    assert "without seed 1 of one, less than half" in (over(tasks, "one", "other").reason or "")


# --- several tasks -------------------------------------------------------------------------------


def over(claim: Claim, *tasks: str, twins: Sequence[str] = ()) -> Decision:
    """What is said over tasks; a twin is called by its name and the task."""
    return decide(
        claim,
        over_tasks(
            {
                task: measure_claim(
                    claim,
                    Run(
                        task,
                        {},
                        "mask",
                        0.05,
                        {twin: Run(f"{twin} {task}", {}, "mask", 0.05) for twin in twins},
                    ),
                )
                for task in tasks
            }
        ),
        0.95,
    )


def test_tasks_weigh_alike_and_their_variances_add_up() -> None:
    claim = claim_of({"one": seeds(0.3, 0.4, 0.5), "other": {0: [0.8] * 9, 1: [0.8] * 9}})
    found = over(claim, "one", "other")
    assert found.effect == pytest.approx(0.6)
    assert (found.low, found.high) == pytest.approx((0.6 - HALF / 2, 0.6 + HALF / 2))
    assert (found.examples, found.seeds, found.reason) == (3 * TEXTS + 18, 3, None)


def test_tasks_without_an_effect_are_named() -> None:
    claim = claim_of({"one": seeds(0.3, 0.3, 0.3), "other": seeds(NAN, NAN, NAN)})
    found = over(claim, "one", "other", "third")
    assert (found.effect, found.verdict) == (pytest.approx(0.3), SUPPORTED)
    assert (found.reason, found.examples) == ("without other, third", 3 * TEXTS)
    assert over(claim, "one").reason == "the run has one task"
    none = over(claim, "third", "fourth")
    assert (none.verdict, none.reason) == (NOT_MEASURED, "the run lacks it")


def test_every_task_needs_an_untrained_network_and_the_effect_does_not_depend_on_it() -> None:
    effects = {"one": seeds(0.5, 0.5, 0.5), "other": seeds(0.3, 0.3, 0.3)}
    zero = seeds(0, 0, 0)
    some = claim_of({**effects, "a one": zero}, null=UNTRAINED)
    found = over(some, "one", "other", twins=["a", "b"])
    assert (found.effect, found.verdict) == (pytest.approx(0.4), NOT_COMPARED)
    assert found.reason == (
        "no untrained twin was measured for this claim; no untrained twin has a value in every task"
    )
    apart = claim_of({**effects, "a one": zero, "b other": zero}, null=UNTRAINED)
    unlike = over(apart, "one", "other", twins=["a", "b"])
    assert unlike.verdict == NOT_COMPARED
    assert unlike.reason == "no untrained twin has a value in every task"
    both = claim_of({**effects, "a one": zero, "a other": seeds(0.1, 0.1, 0.1)}, null=UNTRAINED)
    whole = over(both, "one", "other", twins=["a", "b"])
    assert (whole.verdict, whole.reason) == (SUPPORTED, None)
    assert whole.null_effect == pytest.approx(0.05)


def test_one_seed_in_one_task_leaves_the_average_without_an_interval() -> None:
    claim = claim_of({"one": seeds(0.5, 0.5, 0.5), "other": seeds(0.5)})
    mixed = over(claim, "one", "other")
    assert (mixed.verdict, mixed.low, mixed.p_value) == (UNDECIDED, None, 1.0)
    alone = over(claim_of({"one": seeds(0.5), "other": seeds(0.5)}), "one", "other")
    assert (alone.verdict, alone.reason) == (NOT_MEASURED, ONE_SEED)


def test_times_are_no_samples() -> None:
    claim = claim_of({})._replace(measure=lambda run: Timed(0.5, 0.1, 0.9, 8))
    found = decide(claim, measure_claim(claim, run_of()), 0.95)
    assert (found.effect, found.low, found.high, found.examples) == (0.5, 0.1, 0.9, 8)
    assert (found.verdict, found.p_value, found.interval) == (
        SUPPORTED,
        None,
        "quartiles of timings",
    )


# --- families ------------------------------------------------------------------------------------


def test_the_correction_of_a_run_s_claims_equals_the_values_worked_out_by_hand() -> None:
    p_values = [0.02, None, 0.01, 0.4, 0.045, 0.021]
    verdicts = [SUPPORTED, UNDECIDED, NOT_SUPPORTED, UNDECIDED, SUPPORTED, UNTRAINED_TOO]
    decisions = [
        Decision(p_value=p, verdict=verdict) for p, verdict in zip(p_values, verdicts, strict=True)
    ]
    found = corrected(decisions, 0.95)
    # In order 0.01 · 5 / 1, 0.02 · 5 / 2, 0.021 · 5 / 3, which is less than both, 0.045 · 5 / 4.
    expected = [0.035, None, 0.035, 0.4, 0.05625, 0.035]
    assert [each.p_corrected for each in found] == [
        None if p is None else pytest.approx(p) for p in expected
    ]
    lost = "not after the correction for the run's 5 claims"
    assert [each.reason for each in found] == [None, None, None, None, lost, None]
    assert [each.verdict for each in found] == [*verdicts[:4], UNDECIDED, verdicts[5]]
    assert corrected([Decision()], 0.95) == [Decision()]


def test_refutations_have_p_values_for_as_many_chances_as_they_had() -> None:
    """The smallest of those below 0, times three; of what is above 0, the largest."""
    below = decided(seeds(0.5, 0.6, 0.7), seeds(0.7, 0.8, 0.9), twin=seeds(0.1, 0.2, 0.3))
    assert below.p_value == pytest.approx(3 * 2 * stats.t.sf(0.2 * (3 * TEXTS + 2), 2))


def test_what_is_true_without_training_too_is_as_sure_as_that_it_is_true() -> None:
    """Barely above 0, and clearly below an untrained network."""
    found = decided(seeds(0.2, 0.35, 0.35), twin=seeds(0.9, 1.05, 1.05))
    assert found.verdict == UNTRAINED_TOO
    of_effect = decided(seeds(0.2, 0.35, 0.35)).p_value
    assert found.p_value == pytest.approx(of_effect)


@pytest.mark.parametrize(
    ("one", "other", "verdict", "reason"),
    [
        (0.7, -0.3, MIXED, "tasks disagree: the effect is above 0 for one, not for other"),
        (0.7, 0.3, SUPPORTED, None),
        (0.7, 0.0, SUPPORTED, None),  # no difference in a few hundred texts refutes nothing
    ],
)
def test_tasks_that_exclude_each_other_are_not_averaged_to_a_verdict(
    one: float, other: float, verdict: str, reason: str | None
) -> None:
    claim = claim_of({"one": seeds(one, one, one), "other": seeds(other, other, other)})
    of_tasks = {
        task: decide(claim, measure_claim(claim, run_of(task=task)), 0.95)
        for task in ("one", "other")
    }
    found = with_disagreement(over(claim, "one", "other"), of_tasks)
    assert (found.verdict, found.reason) == (verdict, reason)


def varied(strength: float) -> Tables:
    """Flows and attention whose effects differ between seeds, more so the weaker they are."""
    parts = [
        flows_and_controls(
            [(0.4 + strength * seed, 0.3, 0.3), (0.1, 0.4 + strength * seed, 0.2)],
            [(0.3, 0.3, 0.4)] * 2,
        )["flow"].filter(seed=seed)
        for seed in range(3)
    ]
    return {"flow": pl.concat(parts)}


def test_all_claims_of_a_task_are_corrected_together() -> None:
    even = flows_and_controls([(0.3, 0.3, 0.4)] * 2, [(0.3, 0.3, 0.4)] * 2)
    tables = {**varied(0.05), **isolation({("label", "first"): [1], ("random", "first"): [3]})}
    twin = {**even, **isolation({("label", "first"): [3], ("random", "first"): [3]})}
    tested = summarize(tables, [twin]).filter(pl.col("p_value").is_not_null())
    assert tested.filter(task="news")["family"].n_unique() > 1
    for _, related in tested.group_by("task"):
        corrected_together = stats.false_discovery_control(related["p_value"].to_numpy())
        assert related["p_corrected"].to_list() == pytest.approx(corrected_together.tolist())
        beyond = related.filter(pl.col("p_corrected") > 0.05)
        assert SUPPORTED not in beyond["verdict"].to_list()


# --- all claims ----------------------------------------------------------------------------------


def test_claims_are_told_apart_and_name_source_control_and_form() -> None:
    claims = load_claims()
    assert len({claim.name for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.source.startswith(("[A] §", "[K] §", "[H] §"))
        assert claim.source.startswith(claim.family)
        assert claim.control.description
        assert claim.form in (PAPER, DISCRIMINATING)
        assert "|" not in claim.statement + claim.compared + claim.control.description
        assert claim.figure in ANALYSES
        assert ANALYSES[claim.measured_by].measured or claim.null != UNTRAINED
    # More claims, or questions, are no answer.
    assert len(claims) <= 44
    assert 10 <= sum(claim.question != "" for claim in claims) <= 16


def test_claims_are_in_the_order_of_the_papers() -> None:
    families = list(dict.fromkeys(claim.family for claim in load_claims()))
    assert families == [
        *("[A] §2.1", "[A] §2.2", "[A] §2.3", "[A] §2", "[A] §3.1", "[A] §3.2", "[A] §3.3"),
        *("[K] §4.1", "[K] §4.2", "[K] §5.1", "[K] §5.2", "[K] §5.3", "[K] §5.4", "[K] §5.5"),
        *("[H] §1", "[H] §2", "[H] §3", "[H] §4"),
    ]
    names = [claim.name for claim in load_claims()]
    of_flow = ["flow_early", "flow_late", "flow_wp_over_ww", "flow_pq_over_ww"]
    assert names[:4] == of_flow
    assert names.index("anchors_over_random_words") < names.index("anchors_faster_than_full_cache")


def test_every_claim_has_a_test_of_its_own() -> None:
    for file in registry.entries(FOLDER):
        assert (ROOT / f"tests/claims/sections/test_{file}.py").is_file(), file


def test_early_and_late_are_thirds_of_the_layers_and_at_least_one() -> None:
    for layers, early, late in (
        (1, [0], [0]),
        (2, [0], [1]),
        (5, [0], [4]),
        (6, [0, 1], [4, 5]),
        (18, [*range(6)], [*range(12, 18)]),
    ):
        assert list(range(layers))[first_third(layers)] == early
        assert list(range(layers))[last_third(layers)] == late


class Recorded(dict[str, pl.DataFrame]):
    """Tables, and which of them were read."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> pl.DataFrame:
        self.read.add(name)
        return super().__getitem__(name)


def every_table() -> Tables:
    """All tables that claims read, of three seeds."""
    segments = [
        {**cell, "layer": 0, "head": 0, "segment": segment, "attention": 0.1, "tokens": 2}
        for cell in cells(examples=4)
        for segment in segment_names(["text"])
    ]
    retrieved = [
        {**cell, "demonstrations": choice, "demonstration_labels": [0, 1]}
        for cell in cells(examples=4)
        for choice in ("nearest", "nearest_per_label")
    ]
    answers = retrieval.rows_of("news", 3)
    further = [
        answers.filter(choice="nearest").with_columns(choice=pl.lit(choice))
        for choice in CHOICES
        if choice not in ("random", "nearest")
    ]
    flat = {
        name: [1.0] * 6 for name in ("s_wp", "s_pq", "s_ww", "s_wp_text", "s_pq_text", "s_ww_text")
    }
    flat |= {f"own_{name}": [1.0] * 6 for name in ("label", "text", "before")}
    others = {"target_text": [1.0] * 6, "target_template": [1.0] * 6}
    sides = {(p, s): [2] for p in ("label", "random", "before", "after") for s in ("first", "last")}
    methods = ("hidden_anchor", "text_anchor", "format_only", "label_only")
    edges = {(name, False, 0): [0.4, 0.6] for name in ("label_to_target", "equal_to_target")}
    told = {name: [0.1, 0.2, 0.3] for name in ("saliency", "gradient", "integrated", "attention")}
    taken = {("keys_values", at, 0): [0.4, 0.6] for at in ("label", "text", "template")}
    probed = measure_probes(states(), 1.0)
    single = cuts([0.1, 0.2, 0.3]).filter(pl.col("edges") != "none")
    needed = ("label_copy", "task_recognition_share", "task_learning_share")
    needed += ("function_vector without prefix_matching",)
    needed += ("prefix_matching without function_vector",)
    without = {(score, control, 0, 0.1): [1, 0] for score in needed for control in (False, True)}
    of_heads = {(layer, 0): [1.0, 2.0] for layer in range(3)}
    return {
        "heads": heads(
            {"label_copy": of_heads, "prefix_matching": of_heads},
            {"label_copy": 0.0, "prefix_matching": 0.0},
        ),
        "ablation": ablation(without, [1, 1], [0, 0]),
        "reweighting_beta": beta({(layer, 0): 0.1 * layer for layer in range(3)}),
        "knockout": pl.concat([knockout(edges, [0.5, 0.5]), single]),
        "faithfulness": faithfulness(told),
        "cutoff": cutoff(dict.fromkeys(("first", "label", "random"), [[0, 1]] * 3), [0, 1]),
        "transplant": pl.concat(
            [
                transplant(taken, [0.5, 0.5], [0.3, 0.7], band, name_of_donor="other_texts")
                for band in (("first", 0, 1), ("last", 2, 1), ("all", 0, 3))
            ]
        ).unique(),
        "flow": flow({**flat, **others}),
        **isolation(sides),
        **compression({**{method: [2] for method in methods}, "hidden_random": [2] * 20}),
        **deep_tables(["even"] * 6, ["even"] * 6, (0, 1, 2)),
        **kernel({(layer, 0): 2 for layer in range(3)}),
        **attention_and_similarity([0.1, 0.3], [0.1, 0.2], [(layer, 0) for layer in range(3)]),
        **encoder(2, 4),
        "timing": timings_of("news", 8.0),
        "reweighting": reweighting.predictions_of("m", "news", 3),
        "retrieval": pl.concat([answers, *further]),
        "retrieval_prompts": frame(retrieved, PROMPTS),
        "segments": frame(segments, SEGMENTED),
        "probes": pl.concat([probed, probed.with_columns(offset=pl.lit(1, pl.Int32))]),
        "confusion": pl.concat(
            [confusion.cell("news", seed, 3, [1.0, 0.5, 0.1])[1] for seed in range(3)]
        ),
    }


OF_TWINS = {
    table
    for table, read in read_by_claims().items()
    if (analysis := ANALYSES.get(read.partition("/")[0])) is not None
    if analysis.measured is not None and analysis.measured.twins
}


@pytest.mark.parametrize("file", registry.entries(FOLDER))
def test_a_file_declares_what_its_claims_read_and_twins_are_the_null_of_all_they_have(
    file: str,
) -> None:
    every, answers = every_table(), every_table()["predictions"]
    words = {"words": [" x", " y"], "permuted": [" y", " x"], "symbols": [" A", " B"], "random": []}
    worded = {name: answers for name in words if name != "words"}
    read = set()
    for claim in registry.load(FOLDER, file).CLAIMS:
        tables = Recorded(every)
        run = Run("news", tables, "mask", 0.05, shuffled=tables, worded=worded, words=words)
        claim.measure(run)
        if claim.control.measure is not None:
            claim.control.measure(run)
        read |= tables.read
        # What shuffled labels or other words are compared with is no property of a network alone,
        # and twins are not shown them.
        alone = claim.name not in ("labels_inform", "own_words_over_permuted")
        shared = {"prompts", "embeddings"}  # which twins have in common with the model
        of_twins = tables.read - shared <= OF_TWINS and alone
        assert (claim.null == UNTRAINED) == of_twins, claim.name
    assert read == set(registry.declared(FOLDER, file, "READS"))


def test_claims_on_a_table_that_is_not_given_or_empty_are_not_tested() -> None:
    tables = isolation({("label", "first"): [1], ("random", "first"): [3]})
    summary = summarize({**tables, "timing": timings_of("mine", 8.0)})
    assert summary.select("claim", "task").rows() == [
        (claim.name, task) for claim in load_claims() for task in ("news", "average")
    ]
    assert summary.schema == frame_schema(CLAIMS)
    for task in ("news", "average"):
        reasons = {
            claim: of_claim(summary, claim, task)["reason"]
            for claim in ("flow_early", "anchors_faster_than_full_cache")
        }
        assert reasons == {
            "flow_early": "the run has no table flow",
            "anchors_faster_than_full_cache": "no prompt fits the model's context",
        }
    untested = summary.filter(pl.col("verdict") == NOT_MEASURED)
    assert untested["effect"].is_null().all()
    assert set(untested["examples"]) == {0}


def test_a_task_without_prompts_is_not_tested_and_named_by_the_average() -> None:
    tables = isolation({("label", "first"): [1], ("random", "first"): [3]})
    summary = summarize(tables, [tables], ["news", "poems"])
    poems = of_claim(summary, "isolation_label_over_random", "poems")
    assert (poems["verdict"], poems["reason"]) == (
        NOT_MEASURED,
        "no prompt fits the model's context",
    )
    average = of_claim(summary, "isolation_label_over_random", "average")
    assert average["reason"] == "not clearly above an untrained network; without poems"


def test_nothing_to_summarize_is_said() -> None:
    tables = {name: rows.clear() for name, rows in every_table().items()}
    with pytest.raises(InputError, match="every prompt exceeds"):
        summarize(tables)


# --- adding a claim ------------------------------------------------------------------------------

ANOTHER = '''"""How many answers are right."""

import polars as pl

from anchorflow.claims.claim import Claim, Control, Run, Sampled
from anchorflow.claims.effects import mean_of_examples

READS = ("predictions",)


def right(run: Run) -> Sampled:
    """Accuracy minus a half."""
    seeds = {}
    for seed, rows in run.by_seed("predictions").items():
        hits = (rows["prediction"] == rows["label"]).cast(pl.Float64).to_numpy()
        seeds[seed] = mean_of_examples(rows, hits - 0.5)
    return Sampled(seeds)


CLAIMS = (
    Claim(
        "mostly_right",
        "Most answers are right",
        "SOURCE",
        "accuracy minus 0.5",
        "accuracy",
        right,
        Control("guessing one of two labels"),
    ),
)
'''


@pytest.fixture
def claims_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the claims' folder, from which they are loaded in this test."""
    known = set(sys.modules)
    folder = tmp_path / "anchorflow" / FOLDER
    shutil.copytree(package.__path__[0], folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(registry, "PACKAGE", tmp_path / "anchorflow")
    monkeypatch.setattr(package, "__path__", [str(folder)])
    yield folder
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_claim_is_added_by_its_file_alone(claims_folder: Path) -> None:
    another = ANOTHER.replace("SOURCE", "[A] §3.3")
    (claims_folder / "mostly_right.py").write_text(another, encoding="utf-8")
    for holds, predicted in ((True, pl.col("label")), (False, pl.lit(-1, pl.Int32))):
        predictions = deep_tables(["even"] * 6, ["even"] * 6, (0, 1, 2))["predictions"]
        summary = summarize({"predictions": predictions.with_columns(prediction=predicted)})
        found = of_claim(summary, "mostly_right")
        assert found["effect"] == pytest.approx(0.5 if holds else -0.5)
        assert found["verdict"] == (SUPPORTED if holds else NOT_SUPPORTED)
        others = summary.filter(pl.col("claim") != "mostly_right")
        assert set(others["verdict"]) == {NOT_MEASURED}
    order = [claim.name for claim in load_claims()]
    place = order.index("mostly_right")
    assert order[place - 1 : place + 2] == [
        "anchors_faster_than_full_cache",  # [A] §3.2, Table 3
        "mostly_right",
        "diagnosis_predicts_confusion",  # [A] §3.3, Fig. 6
    ]
    assert registry.declared(FOLDER, "mostly_right", "READS") == ("predictions",)


def test_a_source_that_no_order_can_be_told_from_is_an_error(claims_folder: Path) -> None:
    another = ANOTHER.replace("SOURCE", "Table 2 of [A]")
    (claims_folder / "mostly_right.py").write_text(another, encoding="utf-8")
    with pytest.raises(ValueError, match=r"mostly_right: a source is written as \[A\] §3.2"):
        load_claims()


# --- page and figure -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flow_summary() -> pl.DataFrame:
    """Claims on flow of two tasks, one of which has no prompts, with an untrained twin."""
    own = flows_and_controls([(0.6, 0.1, 0.3), (0.1, 0.7, 0.2)], [(0.3, 0.3, 0.4)] * 2)
    twin = flows_and_controls([(0.3, 0.3, 0.4), (0.1, 0.7, 0.2)], [(0.3, 0.3, 0.4)] * 2)
    return summarize(own, [twin], ["news", "poems"])


def test_the_page_counts_verdicts_by_family_and_says_what_is_compared(
    flow_summary: pl.DataFrame,
) -> None:
    both = pl.concat([flow_summary, flow_summary.with_columns(model=pl.lit("other"))])
    page = tabulate_claims(both, 0.95)
    parts = (page.table, page.further["Further claims"])
    assert [len(part) for part in parts] == [
        2 * sum(bool(claim.question) == asked for claim in load_claims()) for asked in (True, False)
    ]
    shown = pl.concat(parts).filter(model="tiny")
    rows = {row["claim"]: row for row in shown.iter_rows(named=True)}
    early, late = rows["flow_early"], rows["flow_late"]
    assert (early["verdict"], early["because"]) == (SUPPORTED, "without poems")
    assert (early["effect"], early["over null"]) == ("0.50 [0.40, 0.60]", "0.50 [0.40, 0.60]")
    assert (late["verdict"], late["over null"]) == (UNDECIDED, "0.00 [-0.10, 0.10]")
    assert late["because"] == "not clearly above an untrained network; without poems"
    assert (early["marks"], late["marks"]) == ("✓ ✓ ✓", "✓ ✓ ?")
    families = page.further["Verdicts by family"].filter(
        model="tiny", family="[A] §2.1", form=PAPER
    )
    assert families.row(0, named=True)[SUPPORTED] == 2
    assert families.row(0, named=True)[UNDECIDED] == 2
    told = page.further["What is compared"]
    assert told["claim"].to_list() == [claim.name for claim in load_claims()]
    assert len(page.further["Verdicts by task"]) == 2 * len(load_claims())
    alone = tabulate_claims(flow_summary, 0.95).table
    assert "model" not in alone.columns


STYLE = {
    "panel_width": 2.6,
    "font_size": 7,
    "resolution": 60,
    "colors": ["#0072B2", "#D55E00", "#595959"],
}


@pytest.mark.parametrize("tasks", [["news", "poems"], ["poems"]])
def test_the_figure_takes_every_verdict(
    tasks: list[str], flow_summary: pl.DataFrame, tmp_path: Path
) -> None:
    own = flows_and_controls([(0.6, 0.1, 0.3), (0.1, 0.7, 0.2)], [(0.3, 0.3, 0.4)] * 2)
    claims = flow_summary if len(tasks) > 1 else summarize(own, tasks=tasks)
    plot_claims(claims, STYLE, 0.95, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_a_real_run_has_one_row_per_claim_and_task_and_average(shared_run: Checkout) -> None:
    results = shared_run.folder / "results"
    claims = read_table(results / "summaries/claims/tiny.parquet", CLAIMS)
    assert claims.select("claim", "task").rows() == [
        (claim.name, task) for claim in load_claims() for task in ("news", "reviews", "average")
    ]
    assert set(claims["verdict"]) <= set(VERDICTS)
    assert claims.filter(pl.col("effect").is_null())["reason"].is_not_null().all()
    unsupported = claims.filter(
        pl.col("verdict") != SUPPORTED, pl.col("interval") == "seeds and test texts"
    )
    assert unsupported["reason"].is_not_null().all()
    untested = claims.filter(pl.col("effect").is_null(), pl.col("task") != "average")
    lacking = untested.select("claim", "task").rows()
    # With more demonstrations, its prompts are too long; two labels have no rank correlation.
    assert ("reweighting_over_many", "news") in lacking
    assert ("diagnosis_predicts_confusion", "reviews") in lacking
    performance_rows = pl.read_parquet(results / "summaries/reweighting/tiny.parquet").filter(
        method="reweighted", measure="accuracy_gain"
    )
    for task, gain in performance_rows.select("task", "mean").iter_rows():
        found: Row = of_claim(claims, "reweighting_over_vanilla", task)
        assert found["effect"] == pytest.approx(gain)
    table = (results / "tables/claims.md").read_text(encoding="utf-8")
    for claim in load_claims():
        assert f"| {claim.statement} |" in table
        assert f"| {claim.name} |" in table
