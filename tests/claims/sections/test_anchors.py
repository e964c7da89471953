"""Claims on re-weighting, compression, and confusion: where each holds, and where not."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import polars as pl
import pytest

from anchorflow.analyses.confusion import CONFUSION
from anchorflow.analyses.reweighting import REWEIGHTING
from anchorflow.analyses.timing import TIMING
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from constructed import claims as made
from constructed.rows import frame
from constructed.timing import timings_of

# How many texts of four are right re-weighted, where the other way gets two right.
REWEIGHTED = {"holds": 3, "even": 2, "fails": 1}

EFFECTS_OF_WEIGHTS = {"holds": 0.25, "even": 0.0, "fails": -0.25}

BESIDE = {"reweighting_over_vanilla": "vanilla", "reweighting_over_many": "many"}


def tables_of_weights(other: str, own: str) -> made.Tables:
    right = {"reweighted": REWEIGHTED[own], other: 2, "bias_removed": 2}
    return {"reweighting": made.answered(right, "method", REWEIGHTING)}


def test_what_removing_a_preference_for_labels_gains_is_not_counted_for_the_weights() -> None:
    right = {"reweighted": 3, "vanilla": 1, "bias_removed": 3}
    found = made.judged(
        "reweighting_over_vanilla", {"reweighting": made.answered(right, "method", REWEIGHTING)}
    )
    made.expect(found, 0.5, "undecided", "not clearly above its control", 0.5)


@pytest.mark.parametrize(("claim", "other"), BESIDE.items())
def test_accuracies_are_compared_on_the_texts_that_both_were_run_on(claim: str, other: str) -> None:
    rows = made.answered({"reweighted": 3, other: 2}, "method", REWEIGHTING)
    # Without every fourth text, on which both are wrong, 1 of 3 differs.
    kept = rows.filter((pl.col("method") == "reweighted") | (pl.col("example") % 4 != 3))
    found = made.judged(claim, {"reweighting": kept})
    assert found["effect"] == pytest.approx(1 / 3)
    assert found["examples"] == len(made.SEEDS) * made.EXAMPLES * 3 / 4


# On how many texts of four anchors are loyal, where every other method is so on two.
ANCHORS = {"holds": [4], "even": [2], "fails": [0]}

OTHERS = {
    "text_anchor": [2],
    "text_fewer_balanced": [2],
    "hidden_random": [2, 2],
    "format_only": [2],
    "label_only": [2],
}

# By claim, what is lost where it is not loyal: 1 of 7 of the likeliest words stays, and not 4 of 4.
NAMES = {
    "anchors_over_text": 1.0,
    "anchors_over_fewer": 1.0,
    "anchors_over_random": 1.0,
    "anchors_over_random_words": 6 / 7,
}

EFFECTS_RETENTION = {"holds": 0.5, "even": 0.0, "fails": -0.5}

# Of these draws, the mean is loyal on one text of four.
DRAWS = [3, *[0] * 10, *[2] * 7, 1, 2]


def tables_of_retention(anchors: str) -> made.Tables:
    """Of the likeliest words, 1 is a label word's first token, and so does not count."""
    places = {"token_ids": [9, 1, 9], "label_positions": [1], "skipped": None}
    prompts = frame([{"task": "news", "seed": 0, "demonstrations": "fixed", **places}], PROMPTS)
    return {**made.compression({"hidden_anchor": ANCHORS[anchors], **OTHERS}), "prompts": prompts}


def test_random_draws_are_averaged() -> None:
    assert sum(DRAWS) / len(DRAWS) == 1
    tables = made.compression({"hidden_anchor": [4], "hidden_random": DRAWS})
    assert made.judged("anchors_over_random", tables)["effect"] == pytest.approx(0.75)


# Lower quartile, median, and upper quartile, in ms.
QUICK, SLOW = (4, 5, 6), (9, 10, 11)

FASTER = "anchors_faster_than_full_cache"


def timed(anchors: Sequence[float], other: Sequence[float], task: str = "news") -> made.Tables:
    """Timings of the anchors and of what they are compared with."""
    rows = [
        {"model": "tiny", "task": task, "seed": 0, "way": way, "runs": 8}
        | dict(zip(("low", "milliseconds", "high"), times, strict=True))
        for way, times in {"hidden_anchor": anchors, "full": other}.items()
    ]
    return {"timing": frame(rows, TIMING)}


@pytest.mark.parametrize(
    ("anchors", "other", "verdict"),
    [
        (QUICK, SLOW, "supported"),
        ((4, 5, 9), SLOW, "undecided"),
        ((4, 10.5, 12), SLOW, "undecided"),
        ((10.9, 12, 13), SLOW, "undecided"),
        ((11, 12, 13), SLOW, "not supported"),
        (SLOW, QUICK, "not supported"),
    ],
)
def test_quartiles_decide(anchors: Sequence[float], other: Sequence[float], verdict: str) -> None:
    found = made.judged(FASTER, timed(anchors, other))
    assert found["verdict"] == verdict
    assert found["effect"] == pytest.approx(other[1] / anchors[1] - 1)
    assert found["low"] == pytest.approx(other[0] / anchors[2] - 1)
    assert found["high"] == pytest.approx(other[2] / anchors[0] - 1)
    assert found["rule"].startswith("quartiles: supported if the anchors' upper one")
    assert (found["examples"], found["seeds"], found["p_value"]) == (8, 1, None)
    assert found["interval"] == "quartiles of timings"


@pytest.mark.parametrize(
    ("of_news", "of_mine", "verdict"),
    [
        ((QUICK, SLOW), (QUICK, SLOW), "supported"),
        ((QUICK, SLOW), (SLOW, QUICK), "undecided"),
        ((SLOW, QUICK), (SLOW, QUICK), "not supported"),
    ],
)
def test_tasks_must_agree(
    of_news: tuple[Sequence[float], Sequence[float]],
    of_mine: tuple[Sequence[float], Sequence[float]],
    verdict: str,
) -> None:
    parts = [timed(*of_news), timed(*of_mine, task="mine")]
    tables = {"timing": pl.concat([part["timing"] for part in parts])}
    found = made.of_claim(made.summarize(tables, tasks=["news", "mine"]), FASTER, "average")
    assert (found["verdict"], found["reason"], found["examples"]) == (verdict, None, 16)
    assert found["rule"] == "quartiles: supported, or not, if it is so in every task that was timed"


Distances = Mapping[tuple[int, int], float | None]

# Probabilities by true label. Of three labels, 0 and 1 are always told apart, 0 and 2 never, and 1
# and 2 always mistaken for one another: AUCs of 1, 0.5 and 0.
THREE = [[0.4, 0.2, 0.4], [0.4, 0.3, 0.3], [0.3, 0.4, 0.3]]

# Of four, neighbors are always told apart, and the others never: AUCs of 1 and 0.5.
FOUR = [[0.4, 0.1, 0.4, 0.1], [0.1, 0.4, 0.1, 0.4]] * 2

FAR: Distances = {(0, 1): 1.0, (0, 2): 0.6, (1, 2): 0.2}

NEAR: Distances = {(0, 1): 0.2, (0, 2): 0.6, (1, 2): 1.0}

# Three of four labels' neighbors far apart: rotating the labels, all four pairs of neighbors take
# one another's distances.
NEIGHBORS: Distances = {
    (a, b): 1.0 if (b - a) % 2 else 0.4 for a in range(4) for b in range(a + 1, 4)
}


def tables_of_confusion(
    late: Distances, early: Distances = NEAR, probabilities: Sequence[Sequence[float]] = THREE
) -> made.Tables:
    """Distances of late and of other layers, and predictions of nine texts or more per seed."""
    classes = len(probabilities)
    predictions = [
        {
            **cell,
            "label": cell["example"] % classes,
            "prediction": 0,
            "probabilities": probabilities[cell["example"] % classes],
        }
        for cell in made.cells(examples=12)
    ]
    confusion = [
        {**cell, "heads": "concatenated", "layer": layer, "label": a, "other": b}
        | {"distance": distance}
        for cell in made.cells(examples=1)
        for layer in range(made.LAYERS)
        for (a, b), distance in (late if layer >= made.LAYERS - 2 else early).items()
    ]
    return {
        "predictions": frame(predictions, PREDICTIONS),
        "confusion": frame(
            [{k: v for k, v in row.items() if k != "example"} for row in confusion], CONFUSION
        ),
    }


@pytest.mark.parametrize(
    ("late", "effect", "control", "verdict", "reason"),
    [
        # Of three labels, the distances' ranks rotate too, so correlations add up to 0.
        (FAR, 1.0, -0.5, "supported", None),
        (NEAR, -1.0, 0.5, "not supported", "the effect is not above 0"),
    ],
)
def test_diagnosis_predicts_confusion(
    late: Distances, effect: float, control: float, verdict: str, reason: str | None
) -> None:
    early = NEAR if late is FAR else FAR
    found = made.judged("diagnosis_predicts_confusion", tables_of_confusion(late, early))
    made.expect(found, effect, verdict, reason, control)


def test_distances_that_tell_other_labels_as_well_tell_nothing_of_these() -> None:
    found = made.judged(
        "diagnosis_predicts_confusion", tables_of_confusion(NEIGHBORS, NEIGHBORS, FOUR)
    )
    made.expect(found, 1.0, "undecided", "not clearly above its control", 1.0)


def test_keys_without_distances_leave_it_undefined() -> None:
    tables = tables_of_confusion(dict.fromkeys(FAR), dict.fromkeys(FAR))
    found = made.judged("diagnosis_predicts_confusion", tables)
    said = "undefined: in no layer are there three pairs of labels whose AUC and distance vary"
    made.expect(found, None, "undecided", said)


def test_a_layer_without_distances_does_not_count() -> None:
    tables = tables_of_confusion(FAR)
    gone = pl.when(pl.col("layer") == made.LAYERS - 1).then(None).otherwise(pl.col("distance"))
    changed = {**tables, "confusion": tables["confusion"].with_columns(distance=gone)}
    assert made.judged("diagnosis_predicts_confusion", changed)["effect"] == pytest.approx(1)


def test_answers_that_all_stay_may_be_less_sure_with_other_caches() -> None:
    """Every cache keeps every answer, but text and random tokens are as unsure as nothing."""
    table = made.compression({"hidden_anchor": [4], "text_anchor": [4], "hidden_random": [4]})
    rows = table["compression"].with_columns(
        prediction=pl.lit(1, pl.Int32),
        probabilities=pl.when(pl.col("method").is_in(["full", "hidden_anchor"]))
        .then(pl.lit([0.1, 0.9]))
        .otherwise(pl.lit([0.4, 0.6])),
    )
    for claim in ("anchors_over_text", "anchors_over_random"):
        assert made.judged(claim, {"compression": rows})["effect"] == pytest.approx(1), claim


def test_texts_for_which_no_whole_demonstration_fits_are_not_compared() -> None:
    """On them, a prompt of fewer demonstrations is one of none, which retains nothing."""
    rows = made.compression({"hidden_anchor": [2], "text_fewer_balanced": [1]})["compression"]
    fewer = pl.col("method") == "text_fewer_balanced"

    def without(which: pl.Expr) -> made.Tables:
        kept = pl.when(fewer & which).then(1).otherwise("kept").cast(rows.schema["kept"])
        return {"compression": rows.with_columns(kept=kept)}

    assert made.judged("anchors_over_fewer", without(pl.lit(False)))["effect"] == 0.25
    found = made.judged("anchors_over_fewer", without(pl.col("example") % 4 == 1))
    assert found["effect"] == 0  # of texts 0, 2, and 3, each keeps one
    assert found["examples"] == len(made.SEEDS) * made.EXAMPLES * 3 / 4
    found = made.judged("anchors_over_fewer", without(pl.col("seed") == made.SEEDS[0]))
    assert found["seeds"] == len(made.SEEDS) - 1
    said = "no whole demonstration fits the number of anchors in this task"
    made.lacks("anchors_over_fewer", without(pl.lit(True)), said)


def test_what_is_lacking_is_named() -> None:
    alone = {"reweighting": made.answered({"reweighted": 3}, "method", REWEIGHTING)}
    for claim, other in BESIDE.items():
        made.lacks(claim, alone, f"no test text was run with both reweighted and {other}")
    remedy = "compression: {methods: [hidden_anchor, text_anchor]}"
    for kept, lacking in (("hidden_anchor", "text_anchor"), ("text_anchor", "hidden_anchor")):
        reason = f"compression.methods lacks {lacking}"
        made.lacks("anchors_over_text", made.compression({kept: [4]}), reason, remedy)
    timing = timed(QUICK, SLOW)["timing"]
    made.lacks(FASTER, {"timing": timing.filter(way="hidden_anchor")}, "full was not timed")
    two = tables_of_confusion({(0, 1): 1.0}, {(0, 1): 1.0}, [[0.6, 0.4], [0.4, 0.6]])
    reason = "a rank correlation needs three labels or more"
    made.lacks("diagnosis_predicts_confusion", two, reason)
    times = timings_of("news", 8.0)
    busy = times.with_columns(other_work=pl.lit(0.5))
    made.lacks(FASTER, {"timing": busy}, "other work kept 50% of the machine's cores busy")
    few = times.with_columns(runs=pl.lit(3, times.schema["runs"]))
    made.lacks(FASTER, {"timing": few}, "quartiles need 4 times, and there are 3; raise timing.")
    for table in (
        busy.with_columns(device=pl.lit("1 x GPU")),
        times.with_columns(other_work=pl.lit(0.1)),
    ):
        assert made.judged(FASTER, {"timing": table})["effect"] is not None


CONSTRUCTED = (
    *(
        made.Constructed(
            claim,
            partial(tables_of_weights, other),
            EFFECTS_OF_WEIGHTS,
            made.ALONE,
            (lambda _: 0.0) if other == "vanilla" else None,
        )
        for claim, other in BESIDE.items()
    ),
    *(
        made.Constructed(
            claim,
            tables_of_retention,
            {kind: effect * lost for kind, effect in EFFECTS_RETENTION.items()},
            made.TWIN,
        )
        for claim, lost in NAMES.items()
    ),
)


@made.verdicts_of(*CONSTRUCTED)
def test_verdicts(check: Callable[[], None]) -> None:
    check()
