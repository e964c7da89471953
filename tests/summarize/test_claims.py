"""Claims: every one on data where it holds, where it does not, and where nothing can be said."""

import math
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import anchorflow.summarize.claims as package
from anchorflow.config import registry
from anchorflow.config.errors import InputError
from anchorflow.plot.claims import plot_claims
from anchorflow.schemas.claims import CLAIMS
from anchorflow.schemas.compression import COMPRESSION
from anchorflow.schemas.diagnosis import DIAGNOSIS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.isolation import ISOLATION
from anchorflow.schemas.kernel import KERNEL
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.retrieval import RETRIEVAL
from anchorflow.schemas.reweighting import REWEIGHTING
from anchorflow.schemas.saliency import SALIENCY
from anchorflow.schemas.timing import TIMING
from anchorflow.store.parquet import read_table
from anchorflow.summarize.claims import (
    ALL_TASKS,
    INTERVAL,
    QUARTILES,
    load_claims,
    summarize_claims,
)
from anchorflow.summarize.claims._claim import Run
from anchorflow.summarize.depth import first_third, last_third
from anchorflow.summarize.performance import summarize_performance
from anchorflow.summarize.verdicts import (
    INCONCLUSIVE,
    NOT_SUPPORTED,
    NOT_TESTED,
    SUPPORTED,
    verdict,
)
from anchorflow.tabulate.claims import tabulate_claims
from checkout import ROOT, Checkout
from constructed.deep import attention_table, attention_towards

Tables = dict[str, pl.DataFrame]
Row = dict[str, Any]

FOLDER = "summarize/claims"
EXAMPLES = 9
LABELS = {"mine": 2, "news": 3}
LAYERS = 6

# S_wp, S_pq and S_ww as shares: two layers early, two in the middle, two late.
FLOWS = {
    True: [(0.6, 0.1, 0.3)] * 2 + [(0.0, 0.0, 1.0)] * 2 + [(0.1, 0.7, 0.2)] * 2,
    False: [(0.1, 0.5, 0.4)] * 2 + [(1.0, 0.0, 0.0)] * 2 + [(0.4, 0.1, 0.5)] * 2,
}
ATTENDED = {
    True: ["even", "even", "even", "even", "perfect", "perfect"],
    False: ["perfect", "perfect", "even", "even", "even", "even"],
}
# Probabilities by true label: labels 0 and 1 are always told apart, 0 and 2 never, and 1 and 2
# always mistaken for one another, AUCs of 1, 0.5 and 0.
PROBABILITIES = {0: [0.4, 0.2, 0.4], 1: [0.4, 0.3, 0.3], 2: [0.3, 0.4, 0.3]}
DISTANCES = {True: {(0, 1): 1.0, (0, 2): 0.6, (1, 2): 0.2}}
DISTANCES[False] = dict(zip(DISTANCES[True], [0.2, 0.6, 1.0], strict=True))

# The effects on news where all claims hold, and where none does; by hand, in the papers' order.
ALL_OR_NONE = (1.0, -1.0)
EFFECTS = {
    "flow_early": (0.5, -0.4),
    "flow_decays": (0.5, -0.3),
    "flow_late": (0.6, -0.3),
    "flow_wp_over_ww": (0.3, -0.3),
    "flow_pq_over_ww": (0.5, -0.4),
    "isolation_label_over_random": ALL_OR_NONE,
    "isolation_first_over_last": ALL_OR_NONE,
    "deep_auc_rises": (0.5, -0.5),
    "deep_gain_late": (0.5, -0.5),
    "reweighting_over_vanilla": ALL_OR_NONE,
    "reweighting_over_many": ALL_OR_NONE,
    "anchors_over_text_label_loyalty": ALL_OR_NONE,
    "anchors_over_text_word_loyalty": (3 / 4, -3 / 4),
    "anchors_over_text_accuracy": ALL_OR_NONE,
    "anchors_over_random_label_loyalty": ALL_OR_NONE,
    "anchors_over_random_word_loyalty": (3 / 4, -3 / 4),
    "anchors_over_random_accuracy": ALL_OR_NONE,
    "anchors_over_random_top_label_loyalty": ALL_OR_NONE,
    "anchors_over_random_top_word_loyalty": (3 / 4, -3 / 4),
    "anchors_over_random_top_accuracy": ALL_OR_NONE,
    "compression_is_faster": (1.0, -0.5),
    "diagnosis_predicts_confusion": ALL_OR_NONE,
    "heads_reconstruct": (1 - 1 / 3, 0 - 1 / 3),  # a third of the predictions are the same label
    "retrieval_helps": ALL_OR_NONE,
}
NAMES = list(EFFECTS)
SAMPLED = [name for name in NAMES if name != "compression_is_faster"]
# Other claims have a test file of their own, named by theirs.
FILES = [
    file
    for file in registry.entries(FOLDER)
    if {claim.name for claim in registry.load(FOLDER, file).CLAIMS} <= set(NAMES)
]


def frame(rows: Sequence[Row], schema: Any) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=frame_schema(schema))


def measured(
    holds: bool, task: str = "news", seed: int = 0, examples: int = EXAMPLES, layers: int = LAYERS
) -> Tables:
    """All tables of one seed, in which every claim holds or none does."""
    classes = LABELS[task]
    cell = {"model": "tiny", "task": task, "seed": seed}
    truth = [example % classes for example in range(examples)]
    keys = [{**cell, "example": example} for example in range(examples)]
    flows = FLOWS[holds][:layers]
    saliency = [
        {**key, "layer": layer, **dict(zip(("s_wp", "s_pq", "s_ww"), shares, strict=True))}
        for key in keys
        for layer, shares in enumerate(
            [tuple((key["example"] + 1) * share for share in each) for each in flows]
        )
    ]
    towards = attention_towards(truth, range(classes), ATTENDED[holds][:layers])
    predictions = [
        {
            **key,
            "label": label,
            "prediction": label,
            "probabilities": PROBABILITIES[label][:classes],
        }
        for key, label in zip(keys, truth, strict=True)
    ]
    pairs = [(pair, far) for pair, far in DISTANCES[holds].items() if max(pair) < classes]
    diagnosis = [
        {**cell, "layer": layer, "label": a, "other": b, "distance": far if late else 1.2 - far}
        for layer in range(layers)
        for late in [layer in range(layers)[last_third(layers)]]
        for (a, b), far in pairs
    ]
    return {
        "saliency": frame(saliency, SALIENCY),
        "isolation": frame(isolated(holds, keys, truth), ISOLATION),
        "attention": attention_table(towards, range(classes), task, seed),
        "predictions": frame(predictions, PREDICTIONS),
        "reweighting": answered(
            {"reweighted": holds, "vanilla": not holds, "many": not holds},
            "method",
            keys,
            truth,
            REWEIGHTING,
        ),
        "compression": frame(compressed(holds, keys, truth), COMPRESSION),
        "timing": timed(holds, task) if seed == 0 else frame([], TIMING),
        "diagnosis": frame(diagnosis, DIAGNOSIS),
        "kernel": frame(weighed(holds, keys, truth), KERNEL),
        "kernel_predictions": frame(predictions, PREDICTIONS),
        "retrieval": answered(
            {"nearest": holds, "random": not holds}, "choice", keys, truth, RETRIEVAL
        ),
    }


def answered(
    right: dict[str, bool], column: str, keys: list[Row], truth: list[int], schema: Any
) -> pl.DataFrame:
    """Every way to predict is right on all examples or on none."""
    rows = [
        {**key, column: way, "label": label, "prediction": label if is_right else 1 - min(label, 1)}
        for way, is_right in right.items()
        for key, label in zip(keys, truth, strict=True)
    ]
    even = [0.5] * (max(truth) + 1)
    return frame([{**row, "probabilities": even} for row in rows], schema)


def isolated(holds: bool, keys: list[Row], truth: list[int]) -> list[Row]:
    """The untouched run, two layers where the claim holds or not, and runs that do not count."""
    runs = [("none", "none", 0, "none", 0, True)]
    for positions, draw, side, unchanged in (
        ("label", 0, "first", not holds),
        ("label", 0, "last", holds),
        ("random", 0, "first", holds),
        ("random", 1, "first", holds),
    ):
        runs.append(("mask", positions, draw, side, 2, unchanged))
        runs.append(("mask", positions, draw, side, 1, not unchanged))
        runs.append(("zero", positions, draw, side, 2, not unchanged))
    names = ("variant", "positions", "draw", "side", "layers")
    return [
        {
            **key,
            **dict(zip(names, run[:-1], strict=True)),
            "label": label,
            "prediction": 0 if run[-1] else 1,
            "probabilities": [0.5, 0.5],
            "top_tokens": [1],
        }
        for run in runs
        for key, label in zip(keys, truth, strict=True)
    ]


def compressed(holds: bool, keys: list[Row], truth: list[int]) -> list[Row]:
    """Everything kept is right; the anchors are so too, or all others are; half the tokens not."""
    settings = [
        ("full", None, 0, True),
        ("hidden_anchor", None, 0, holds),
        ("text_anchor", None, 0, not holds),
        ("hidden_random", None, 0, not holds),
        ("hidden_random", None, 1, not holds),
        ("hidden_random", 0.5, 0, holds),
    ]
    return [
        {
            **key,
            "method": method,
            "share": share,
            "draw": draw,
            "kept": 5,
            "shared": 20,
            "label": label,
            "prediction": label if loyal else 1 - min(label, 1),
            "probabilities": [0.5, 0.5],
            "top_tokens": [1, 2, 3, 4, 5] if loyal else [1, 2, 6, 7, 8],
        }
        for method, share, draw, loyal in settings
        for key, label in zip(keys, truth, strict=True)
    ]


def weighed(holds: bool, keys: list[Row], truth: list[int]) -> list[Row]:
    """A head that predicts what the model does, or none; the other kind of weights the reverse."""
    return [
        {
            **key,
            "layer": 0,
            "head": head,
            "weights": weights,
            "prediction": label if (head == 1) and (holds == (weights == "max")) else -1,
        }
        for key, label in zip(keys, truth, strict=True)
        for head in (0, 1)
        for weights in ("label", "max")
    ]


def timed(
    holds: bool, task: str, quick: Sequence[float] = (4, 5, 6), slow: Sequence[float] = (9, 10, 11)
) -> pl.DataFrame:
    ways = {"full_prompt": slow, "hidden_anchor": quick}
    if not holds:
        ways = {"full_prompt": quick, "hidden_anchor": slow}
    rows = [
        {"model": "tiny", "task": task, "seed": 0, "way": way, "runs": 8}
        | dict(zip(("low", "milliseconds", "high"), times, strict=True))
        for way, times in {**ways, "full": (1, 2, 3)}.items()
    ]
    return frame(rows, TIMING)


def together(*parts: Tables) -> Tables:
    return {name: pl.concat([part[name] for part in parts]) for name in parts[0]}


def summarize(tables: Tables, tasks: Sequence[str] = ("news",)) -> pl.DataFrame:
    """The rows of the claims that are tested here."""
    summary = summarize_claims(tasks, "mask", 200, 0.9, **tables)
    return summary.filter(pl.col("claim").is_in(NAMES))


def row(summary: pl.DataFrame, claim: str, task: str = "news") -> Row:
    return summary.row(
        by_predicate=(pl.col("claim") == claim) & (pl.col("task") == task), named=True
    )


@pytest.fixture(scope="module")
def all_or_none() -> dict[bool, pl.DataFrame]:
    """Two seeds in which every claim holds, and two in which none does."""
    return {
        holds: summarize(together(*[measured(holds, seed=seed) for seed in (0, 1)]))
        for holds in (True, False)
    }


@pytest.mark.parametrize("claim", NAMES)
@pytest.mark.parametrize("holds", [True, False])
def test_every_claim_is_supported_where_it_holds_and_not_where_it_fails(
    claim: str, holds: bool, all_or_none: dict[bool, pl.DataFrame]
) -> None:
    found = row(all_or_none[holds], claim)
    assert found["effect"] == pytest.approx(EFFECTS[claim][0 if holds else 1])
    assert found["verdict"] == (SUPPORTED if holds else NOT_SUPPORTED)
    assert found["low"] > 0 if holds else found["high"] < 0
    assert found["reason"] is None
    timing = claim == "compression_is_faster"
    assert found["rule"] == (QUARTILES if timing else INTERVAL)
    assert (found["examples"], found["seeds"]) == ((8, 1) if timing else (2 * EXAMPLES, 2))


def test_seeds_that_disagree_leave_every_claim_inconclusive() -> None:
    summary = summarize(together(measured(True), measured(False, seed=1)))
    for claim in SAMPLED:
        found = row(summary, claim)
        assert found["low"] < 0 < found["high"], claim
        assert found["verdict"] == INCONCLUSIVE
        assert found["effect"] == pytest.approx(sum(EFFECTS[claim]) / 2)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1e-9, 0.5, SUPPORTED),
        (0.0, 0.5, INCONCLUSIVE),
        (-0.1, 0.1, INCONCLUSIVE),
        (-0.1, 0.0, NOT_SUPPORTED),
        (0.0, 0.0, NOT_SUPPORTED),
        (-0.2, -0.1, NOT_SUPPORTED),
        (math.nan, math.nan, INCONCLUSIVE),
    ],
)
def test_an_interval_decides(low: float, high: float, said: str) -> None:
    assert verdict(low, high) == said


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


def test_the_middle_one_of_an_odd_number_of_layers_counts_half() -> None:
    # Three layers, all as telling: a third is gained in each, so half in the upper half.
    tables = measured(True)
    even = attention_towards(
        [example % 3 for example in range(EXAMPLES)], range(3), ["perfect"] * 3
    )
    tables["attention"] = attention_table(even, range(3), "news")
    found = row(summarize(tables), "deep_gain_late")
    assert found["effect"] == 0
    assert found["verdict"] == NOT_SUPPORTED


def without_labels(tables: Tables) -> Tables:
    constant = tables["predictions"].with_columns(prediction=pl.lit(0, pl.Int32))
    return {**tables, "predictions": constant}


def without_news(tables: Tables) -> Tables:
    even = attention_towards([0] * EXAMPLES, range(3), ["even"] * LAYERS)
    return {**tables, "attention": attention_table(even, range(3), "news")}


def without_distances(tables: Tables) -> Tables:
    gone = tables["diagnosis"].with_columns(distance=pl.lit(None, pl.Float64))
    return {**tables, "diagnosis": gone}


@pytest.mark.parametrize(
    ("claim", "change", "reason"),
    [
        ("deep_auc_rises", without_labels, "in no seed does the model predict two labels"),
        ("deep_gain_late", without_labels, "in no seed does the model predict two labels"),
        ("deep_gain_late", without_news, "attention to the label words does not tell which"),
        ("diagnosis_predicts_confusion", without_distances, "in no layer are there three pairs"),
    ],
)
def test_an_undefined_effect_is_inconclusive_and_said(
    claim: str, change: Callable[[Tables], Tables], reason: str
) -> None:
    found = row(summarize(change(measured(True))), claim)
    assert (found["effect"], found["low"], found["high"]) == (None, None, None)
    assert found["verdict"] == INCONCLUSIVE
    assert found["reason"].startswith("undefined: ")
    assert reason in found["reason"]


def test_a_single_text_has_no_other_to_choose_a_head_or_a_draw_by() -> None:
    summary = summarize(measured(True, examples=1))
    assert "undefined: there are no texts" in row(summary, "heads_reconstruct")["reason"]
    draw = row(summary, "anchors_over_random_top_accuracy")
    assert (draw["verdict"], draw["effect"]) == (NOT_TESTED, None)
    assert draw["reason"] == "a single test text leaves no other to choose a draw by"


def test_an_effect_that_most_replicates_do_not_have_is_inconclusive() -> None:
    # With a text per label, most replicates lack a label and thus two pairs of three.
    found = row(summarize(measured(True, examples=3)), "diagnosis_predicts_confusion")
    assert (found["effect"], found["verdict"]) == (1.0, INCONCLUSIVE)
    assert found["reason"].startswith("undefined in ")
    assert found["reason"].endswith("% of the replicates")


def dropped(table: str, column: str, value: Any) -> Callable[[Tables], Tables]:
    return lambda tables: {**tables, table: tables[table].filter(pl.col(column) != value)}


@pytest.mark.parametrize(
    ("change", "claims", "reason"),
    [
        (
            dropped("compression", "method", "hidden_random"),
            [name for name in NAMES if name.startswith("anchors_over_random")],
            "compression.methods lacks hidden_random",
        ),
        (
            dropped("compression", "method", "text_anchor"),
            [name for name in NAMES if name.startswith("anchors_over_text")],
            "compression.methods lacks text_anchor",
        ),
        (
            dropped("compression", "method", "hidden_anchor"),
            [name for name in NAMES if name.startswith("anchors_over")],
            "compression.methods lacks hidden_anchor",
        ),
        (
            dropped("reweighting", "method", "many"),
            ["reweighting_over_many"],
            "no example was run with both reweighted and many",
        ),
        (
            dropped("retrieval", "choice", "nearest"),
            ["retrieval_helps"],
            "no example was run with both nearest and random",
        ),
        (
            dropped("timing", "task", "news"),
            ["compression_is_faster"],
            "no prompt fits the model's context",
        ),
    ],
)
def test_what_a_run_lacks_is_listed_as_not_tested_with_the_reason(
    change: Callable[[Tables], Tables], claims: list[str], reason: str
) -> None:
    summary = summarize(change(measured(True)))
    for task in ("news", "average"):
        untested = summary.filter(pl.col("verdict") == NOT_TESTED, pl.col("task") == task)
        assert untested["claim"].to_list() == claims
        assert all(said.startswith(reason) for said in untested["reason"])
        assert untested["effect"].is_null().all()
        assert set(untested["examples"]) <= {0}


def test_a_model_of_one_layer_has_nothing_early_and_late() -> None:
    tables = measured(True, layers=1)
    isolation = tables["isolation"].with_columns(pl.col("layers").clip(0, 1))
    setting = ["variant", "positions", "draw", "side", "layers", "example"]
    summary = summarize({**tables, "isolation": isolation.unique(setting, keep="first")})
    untested = dict(
        summary.filter(pl.col("verdict") == NOT_TESTED, pl.col("task") == "news")
        .select("claim", "reason")
        .iter_rows()
    )
    single = "the model has a single layer"
    assert untested == {
        "flow_decays": single,
        "isolation_first_over_last": "all layers are isolated, so that the first are the last",
        "deep_auc_rises": single,
        "deep_gain_late": single,
    }


def test_a_task_without_prompts_is_not_tested_and_named_by_the_average() -> None:
    tables = together(*[measured(True, seed=seed) for seed in (0, 1)])
    summary = summarize(tables, ["news", "poems"])
    poems = summary.filter(pl.col("task") == "poems")
    assert poems["claim"].to_list() == NAMES
    assert set(poems["verdict"]) == {NOT_TESTED}
    assert set(poems["reason"]) == {"no prompt fits the model's context"}
    average = summary.filter(pl.col("task") == "average")
    assert set(average["verdict"]) == {SUPPORTED}
    assert set(average["reason"]) == {"without poems"}


def test_averages_weigh_tasks_alike_and_say_what_they_lack() -> None:
    tables = together(measured(True), measured(True, seed=1), measured(False, "mine"))
    summary = summarize(tables, ["mine", "news"])
    assert summary.schema == frame_schema(CLAIMS)
    assert summary.select("claim", "task").rows() == [
        (name, task) for name in NAMES for task in ("mine", "news", "average")
    ]
    for claim in ("flow_early", "reweighting_over_many", "deep_auc_rises"):
        of_tasks = [row(summary, claim, task)["effect"] for task in ("mine", "news")]
        average = row(summary, claim, "average")
        assert of_tasks == pytest.approx(list(EFFECTS[claim])[::-1])
        assert average["effect"] == pytest.approx(sum(of_tasks) / 2)
        assert (average["examples"], average["seeds"]) == (3 * EXAMPLES, 2)
        assert average["reason"] is None
    few = row(summary, "diagnosis_predicts_confusion", "mine")
    assert (few["verdict"], few["effect"]) == (NOT_TESTED, None)
    assert few["reason"] == "a rank correlation needs three labels or more"
    average = row(summary, "diagnosis_predicts_confusion", "average")
    assert (average["effect"], average["verdict"]) == (1.0, SUPPORTED)
    assert (average["reason"], average["examples"]) == ("without mine", 2 * EXAMPLES)


def test_the_share_of_what_is_gained_over_tasks_is_that_of_the_mean_auc() -> None:
    # AUC - 0.5 is 0, 0, 0, 0, 0.5, 0.5 for news and 0.5 everywhere for mine; of the mean, the upper
    # three layers gain (0.25 + 0.5 + 0.5) / 2, where the mean of the shares would be 0.75.
    tables = together(measured(True), measured(True, "mine"))
    truth = [example % 2 for example in range(EXAMPLES)]
    perfect = attention_towards(truth, range(2), ["perfect"] * LAYERS)
    news = tables["attention"].filter(pl.col("task") == "news")
    tables["attention"] = pl.concat([attention_table(perfect, range(2), "mine"), news])
    summary = summarize(tables, ["mine", "news"])
    effects = [row(summary, "deep_gain_late", task)["effect"] for task in ("mine", "news")]
    assert effects == pytest.approx([0, 0.5])
    assert row(summary, "deep_gain_late", "average")["effect"] == pytest.approx(0.125)


def test_the_average_of_one_task_says_so() -> None:
    summary = summarize(measured(True))
    average = row(summary, "flow_early", "average")
    assert average["reason"] == "the run has one task"
    assert average["verdict"] == SUPPORTED


@pytest.mark.parametrize(
    ("quick", "slow", "said"),
    [
        ((4, 5, 8.9), (9, 10, 11), SUPPORTED),
        ((4, 5, 9), (9, 10, 11), INCONCLUSIVE),
        ((4, 10.5, 12), (9, 10, 11), INCONCLUSIVE),
        ((11, 12, 13), (9, 10, 11), NOT_SUPPORTED),
        ((10.9, 12, 13), (9, 10, 11), INCONCLUSIVE),
    ],
)
def test_quartiles_decide_on_time(quick: Sequence[float], slow: Sequence[float], said: str) -> None:
    tables = {**measured(True), "timing": timed(True, "news", quick, slow)}
    found = row(summarize(tables), "compression_is_faster")
    assert found["verdict"] == said
    assert found["rule"] == QUARTILES
    assert found["effect"] == pytest.approx(slow[1] / quick[1] - 1)
    assert found["low"] == pytest.approx(slow[0] / quick[2] - 1)
    assert found["high"] == pytest.approx(slow[2] / quick[0] - 1)


@pytest.mark.parametrize(("mine", "said"), [(True, SUPPORTED), (False, INCONCLUSIVE)])
def test_tasks_must_agree_on_time(mine: bool, said: str) -> None:
    tables = together(measured(True), measured(mine, "mine"))
    average = row(summarize(tables, ["mine", "news"]), "compression_is_faster", "average")
    assert (average["verdict"], average["rule"]) == (said, ALL_TASKS)
    assert (average["low"], average["high"]) == (None, None)
    assert average["effect"] == pytest.approx((1 + (1 if mine else -0.5)) / 2)
    assert average["examples"] == 16


def test_no_difference_is_not_taken_for_one_by_rounding() -> None:
    # One text in three is answered alike by the anchors and by all draws.
    tables = measured(True)
    same = tables["compression"].with_columns(
        prediction=pl.when(pl.col("method") == "full")
        .then(0)
        .otherwise((pl.col("example") % 3 > 0).cast(pl.Int32))
    )
    found = row(summarize({**tables, "compression": same}), "anchors_over_random_label_loyalty")
    assert (found["effect"], found["low"], found["high"]) == (0, 0, 0)
    assert found["verdict"] == NOT_SUPPORTED


def test_accuracies_are_compared_on_the_examples_that_both_were_run_on() -> None:
    tables = together(measured(True), measured(False, seed=1))
    chosen = tables["reweighting"].filter(
        (pl.col("method") == "vanilla") | (pl.col("example") != 4) | (pl.col("seed") == 0)
    )
    summary = summarize({**tables, "reweighting": chosen})
    assert row(summary, "reweighting_over_vanilla")["examples"] == 2 * EXAMPLES - 1
    prompts = frame([{"task": "news", "demonstrations": "fixed"}], PROMPTS)
    performance = summarize_performance(chosen, prompts, prompts.clear(), 100, 0.9, ())
    gain = performance.filter(method="reweighted", measure="accuracy_gain", task="news")["mean"]
    assert row(summary, "reweighting_over_vanilla")["effect"] == pytest.approx(gain[0])


def test_nothing_to_summarize_is_said() -> None:
    tables = {name: rows.clear() for name, rows in measured(True).items()}
    with pytest.raises(InputError, match="every prompt exceeds"):
        summarize(tables)


def test_claims_are_told_apart_and_say_where_they_are_from() -> None:
    claims = load_claims()
    assert len({claim.name for claim in claims}) == len(claims)
    for claim in claims:
        assert claim.source.startswith(("[A] §", "[K] §"))
        assert "|" not in claim.statement + claim.compared


def test_claims_are_in_the_order_of_the_papers() -> None:
    assert [claim.name for claim in load_claims() if claim.name in NAMES] == NAMES


def test_every_claim_is_tested_here_or_in_a_file_of_its_own() -> None:
    for file in set(registry.entries(FOLDER)) - set(FILES):
        assert list((ROOT / "tests").rglob(f"test_{file}.py")), f"{file} has no test"


class Recorded(dict[str, pl.DataFrame]):
    """Tables, and which of them were read."""

    def __init__(self, tables: Tables) -> None:
        super().__init__(tables)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> pl.DataFrame:
        self.read.add(name)
        return super().__getitem__(name)


@pytest.mark.parametrize("file", FILES)
def test_a_claim_declares_the_tables_that_it_reads(file: str) -> None:
    for claim in registry.load(FOLDER, file).CLAIMS:
        tables = Recorded(measured(True))
        claim.measure(Run("news", tables, "mask", 10))
        assert tables.read == set(registry.declared(FOLDER, file, "READS"))


def test_claims_on_a_table_that_is_not_given_are_not_tested() -> None:
    tables = measured(True)
    del tables["saliency"]
    untested = summarize(tables).filter(pl.col("verdict") == NOT_TESTED, pl.col("task") == "news")
    assert untested["claim"].to_list() == [name for name in NAMES if name.startswith("flow")]
    assert set(untested["reason"]) == {"the run has no table saliency"}


ANOTHER = '''"""How many answers are right."""

import polars as pl

from anchorflow.summarize.claims._claim import Claim, Run, Sampled
from anchorflow.summarize.claims._effects import mean_of_examples, sampled

READS = ("predictions",)


def right(run: Run) -> Sampled:
    """Accuracy minus a half."""
    seeds = [rows.select(pl.col("prediction") == pl.col("label")) for rows in run.seeds(READS[0])]
    return sampled(run, [mean_of_examples(each.to_series().to_numpy() - 0.5) for each in seeds])


CLAIMS = (Claim("mostly_right", "Most answers are right", "SOURCE", "less 0.5", "accuracy", right),)
'''


@pytest.fixture
def claims_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the claims' folder, from which they are loaded in this test."""
    known = set(sys.modules)
    folder = tmp_path / "anchorflow" / FOLDER
    shutil.copytree(package.__path__[0], folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(registry, "_PACKAGE", tmp_path / "anchorflow")
    monkeypatch.setattr(package, "__path__", [str(folder)])
    yield folder
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_a_claim_is_added_by_its_file_alone(claims_folder: Path) -> None:
    another = ANOTHER.replace("SOURCE", "[A] §3.3")
    (claims_folder / "mostly_right.py").write_text(another, encoding="utf-8")
    for holds, predicted in ((True, pl.col("label")), (False, pl.lit(-1, pl.Int32))):
        predictions = measured(True)["predictions"].with_columns(prediction=predicted)
        summary = summarize_claims(["news"], "mask", 200, 0.9, predictions=predictions)
        found = row(summary, "mostly_right")
        assert found["effect"] == pytest.approx(0.5 if holds else -0.5)
        assert found["verdict"] == (SUPPORTED if holds else NOT_SUPPORTED)
        others = summary.filter(pl.col("claim").is_in(NAMES))
        assert set(others["verdict"]) == {NOT_TESTED}
    order = [claim.name for claim in load_claims() if claim.name in (*NAMES, "mostly_right")]
    place = order.index("mostly_right")
    assert order[place - 1 : place + 2] == [
        "compression_is_faster",  # [A] §3.2, Table 3
        "mostly_right",
        "diagnosis_predicts_confusion",  # [A] §3.3, Fig. 6
    ]
    assert registry.declared(FOLDER, "mostly_right", "READS") == ("predictions",)


def test_a_source_that_no_order_can_be_told_from_is_an_error(claims_folder: Path) -> None:
    another = ANOTHER.replace("SOURCE", "Table 2 of [A]")
    (claims_folder / "mostly_right.py").write_text(another, encoding="utf-8")
    with pytest.raises(ValueError, match=r"mostly_right: a source is written as \[A\] §3.2"):
        load_claims()


def test_the_tables_have_a_row_per_claim_and_a_column_per_task(
    all_or_none: dict[bool, pl.DataFrame],
) -> None:
    both = pl.concat([all_or_none[True], all_or_none[False].with_columns(model=pl.lit("other"))])
    page = tabulate_claims(both, 0.9)
    averaged = page.table
    assert averaged.columns == ["statement", "source", "compared", "unit", "tiny", "other"]
    assert len(averaged) == len(NAMES)
    assert averaged["tiny"][0] == "0.50 [0.50, 0.50] supported (the run has one task)"
    by_task = page.further["Verdicts by task"]
    assert by_task.columns == ["model", "claim", "news", "average"]
    assert len(by_task) == 2 * len(NAMES)
    untested = summarize(together(measured(True)), ["news", "mine"])
    assert "– not tested: " not in tabulate_claims(untested, 0.9).table["tiny"][0]
    two = tabulate_claims(summarize(measured(True, "mine"), ["mine"]), 0.9).table
    reason = "– not tested: a rank correlation needs three labels or more"
    assert reason in two["tiny"].to_list()


STYLE = {
    "panel_width": 2,
    "font_size": 7,
    "resolution": 60,
    "colors": ["#0072B2", "#D55E00", "#595959"],
}


@pytest.mark.parametrize("task", ["news", "mine", "poems"])
def test_the_figure_takes_every_verdict(
    task: str, all_or_none: dict[bool, pl.DataFrame], tmp_path: Path
) -> None:
    claims = {
        "news": all_or_none[True],
        "mine": summarize(measured(False, "mine"), ["mine"]),
        "poems": summarize(measured(False, "mine"), ["poems"]),
    }[task]
    plot_claims(claims, STYLE, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_a_real_run_has_one_row_per_claim_and_task_and_average(finished_run: Checkout) -> None:
    results = finished_run.folder / "results"
    claims = read_table(results / "claims/tiny.parquet", CLAIMS)
    assert claims.select("claim", "task").rows() == [
        (claim.name, task) for claim in load_claims() for task in ("news", "reviews", "average")
    ]
    assert set(claims["verdict"]) <= {SUPPORTED, NOT_SUPPORTED, INCONCLUSIVE, NOT_TESTED}
    assert claims.filter(pl.col("effect").is_null())["reason"].is_not_null().all()
    untested = claims.filter(pl.col("verdict") == NOT_TESTED, pl.col("claim").is_in(NAMES))
    assert untested.select("claim", "task").rows() == [
        ("reweighting_over_many", "news"),  # with more demonstrations, its prompts are too long
        ("diagnosis_predicts_confusion", "reviews"),
    ]
    performance = pl.read_parquet(results / "performance/tiny.parquet").filter(
        method="reweighted", measure="accuracy_gain"
    )
    for task, gain in performance.select("task", "mean").iter_rows():
        assert row(claims, "reweighting_over_vanilla", task)["effect"] == pytest.approx(gain)
    table = (results / "tables/claims.md").read_text(encoding="utf-8")
    for claim in load_claims():
        assert f"| {claim.statement} |" in table
        assert f"| tiny | {claim.name} |" in table
