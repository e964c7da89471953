"""All claims together: their order, what they read, their correction, and how one is added.

Every claim has a test of its own in the folder ``sections``.
"""

import importlib
import re
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import anchorflow.claims.sections as package
from anchorflow.analyses.kernel import SEGMENTED
from anchorflow.analyses.kernel.segments import segment_names
from anchorflow.analyses.probes.measure import measure_probes
from anchorflow.analyses.retrieval.summarize import CHOICES
from anchorflow.claims.claim import DISCRIMINATING, PAPER, UNTRAINED, Run
from anchorflow.claims.schema import CLAIMS
from anchorflow.claims.summarize import load_claims
from anchorflow.claims.verdicts import NOT_MEASURED, NOT_SUPPORTED, SUPPORTED, VERDICTS
from anchorflow.config import registry
from anchorflow.config.errors import InputError
from anchorflow.config.stages import ANALYSES, read_by_claims
from anchorflow.depth import first_third, last_third
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store.parquet import read_table
from checkout import ROOT, Checkout
from constructed import claims as made
from constructed import confusion, override, retrieval, reweighting, vectors
from constructed.additivity import of_additivity
from constructed.attention import deep_tables
from constructed.heads import ablation, beta, heads
from constructed.interventions import cutoff, cuts, faithfulness, knockout, transplant
from constructed.kernel import states
from constructed.rows import frame
from constructed.timing import timings_of

FOLDER, OTHER = "claims/sections", "other_texts"


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
    assert len(claims) <= 53
    assert 10 <= sum(claim.question != "" for claim in claims) <= 17


def test_claims_are_in_the_order_of_the_papers() -> None:
    families = list(dict.fromkeys(claim.family for claim in load_claims()))
    assert families == [
        *("[A] §2.1", "[A] §2.2", "[A] §2.3", "[A] §2", "[A] §3.1", "[A] §3.2", "[A] §3.3"),
        *("[K] §4.1", "[K] §4.2", "[K] §5.1", "[K] §5.2", "[K] §5.3", "[K] §5.4", "[K] §5.5"),
        *("[H] §1", "[H] §2", "[H] §3", "[H] §4", "[H] §5", "[H] §6", "[H] §7"),
    ]
    names = [claim.name for claim in load_claims()]
    of_flow = ["flow_early", "flow_late", "flow_wp_over_ww", "flow_pq_over_ww"]
    assert names[:4] == of_flow
    assert names.index("anchors_over_random_words") < names.index("anchors_faster_than_full_cache")


def test_every_claim_has_a_test_of_its_own() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests/claims/sections").glob("*.py"))
    names = [claim.name for claim in load_claims()]
    assert [name for name in names if not re.search(rf"\b{name}\b", tests)] == []


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

    def __init__(self, tables: made.Tables) -> None:
        super().__init__(tables)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> pl.DataFrame:
        self.read.add(name)
        return super().__getitem__(name)


@cache
def every_table() -> made.Tables:
    """All tables that claims read, of three seeds."""
    segments = [
        {**cell, "layer": 0, "head": 0, "segment": segment, "attention": 0.1, "tokens": 2}
        for cell in made.cells(examples=4)
        for segment in segment_names(["text"])
    ]
    retrieved = [
        {**cell, "demonstrations": choice, "demonstration_labels": [0, 1]}
        for cell in made.cells(examples=4)
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
    methods = ("hidden_anchor", "text_anchor", "text_fewer_balanced", "format_only", "label_only")
    edges = {(name, False, 0): [0.4, 0.6] for name in ("label_to_target", "equal_to_target")}
    estimates = ("saliency", "gradient", "integrated", "gim", "attention")
    told = {name: [0.1, 0.2, 0.3] for name in estimates}
    taken = {("keys_values", at, 0): [0.4, 0.6] for at in ("label", "text", "template")}
    outputs = {("residual", at, 0): [0.4, 0.6] for at in ("label", "one_label")}
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
        "additivity": of_additivity(
            {kind: [0.1, 0.3] for kind in ("one", "composed", "deranged", "whole")}
        ),
        "ablation": ablation(without, [1, 1], [0, 0]),
        "reweighting_beta": beta({(layer, 0): 0.1 * layer for layer in range(3)}),
        "knockout": pl.concat(
            [knockout(edges, [0.5, 0.5]), single, single.with_columns(control=True)]
        ),
        "faithfulness": pl.concat([faithfulness(told), faithfulness(told, control=True)]),
        "cutoff": cutoff(dict.fromkeys(("first", "label", "random"), [[0, 1]] * 3), [0, 1]),
        "transplant": pl.concat(
            [
                transplant(taken, [0.5, 0.5], [0.3, 0.7], band, name_of_donor=OTHER)
                for band in (("first", 0, 1), ("last", 2, 1), ("all", 0, 3))
            ]
            + [transplant(outputs, [0.5, 0.5], [0.3, 0.7], ("at", 1, 1), name_of_donor=OTHER)]
        ).unique(),
        "vectors": vectors.answers(
            {
                vectors.RECIPIENT: [0.3, 0.4],
                vectors.ONE: [0.3, 0.4],
                vectors.RANDOM_TEXTS: [0.3, 0.4],
                **{
                    vectors.put(vector, source): [0.5, 0.6]
                    for vector in ("task", "function", "local")
                    for source in ("own", "deranged", "other_task")
                },
            }
        ),
        "flow": made.flow({**flat, **others}),
        **made.isolation(sides),
        **made.compression({**{method: [2] for method in methods}, "hidden_random": [2, 2]}),
        **deep_tables(["even"] * 6, ["even"] * 6, (0, 1, 2)),
        **made.kernel({(layer, 0): 2 for layer in range(3)}),
        **made.attention_and_similarity([0.1, 0.3], [0.1, 0.2], [(layer, 0) for layer in range(3)]),
        **made.encoder(2, 4),
        "timing": timings_of("news", 8.0),
        "reweighting": reweighting.predictions_of("m", "news", 3),
        "override": override.answers({"first_only": [0, 0, 0, 0], "full": [0, 0, 1, 1]}),
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


@pytest.mark.parametrize("place", registry.claim_places())
def test_a_file_declares_what_its_claims_read_and_twins_are_the_null_of_all_they_have(
    place: str,
) -> None:
    every = every_table()
    answers = every["predictions"]
    words = {"words": [" x", " y"], "permuted": [" y", " x"], "symbols": [" A", " B"], "random": []}
    worded = {name: answers for name in words if name != "words"}
    read = set()
    for claim in importlib.import_module(registry.module_at(place)).CLAIMS:
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
    assert read == set(registry.declared(*place.rsplit("/", 1), "READS"))


def test_claims_on_a_table_that_is_not_given_or_empty_are_not_tested() -> None:
    tables = made.isolation({("label", "first"): [1], ("random", "first"): [3]})
    summary = made.summarize({**tables, "timing": timings_of("mine", 8.0)})
    assert summary.select("claim", "task").rows() == [
        (claim.name, task) for claim in load_claims() for task in ("news", "average")
    ]
    assert summary.schema == frame_schema(CLAIMS)
    for task in ("news", "average"):
        reasons = {
            claim: made.of_claim(summary, claim, task)["reason"]
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
    tables = made.isolation({("label", "first"): [1], ("random", "first"): [3]})
    summary = made.summarize(tables, [tables], ["news", "poems"])
    poems = made.of_claim(summary, "isolation_label_over_random", "poems")
    assert (poems["verdict"], poems["reason"]) == (
        NOT_MEASURED,
        "no prompt fits the model's context",
    )
    average = made.of_claim(summary, "isolation_label_over_random", "average")
    assert average["reason"] == "not clearly above an untrained network; without poems"


def test_nothing_to_summarize_is_said() -> None:
    tables = {name: rows.clear() for name, rows in every_table().items()}
    with pytest.raises(InputError, match="every prompt exceeds"):
        made.summarize(tables)


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
        null="",
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
    another = ANOTHER.replace("SOURCE", "[K] §4.1")
    (claims_folder / "mostly_right.py").write_text(another, encoding="utf-8")
    for holds, predicted in ((True, pl.col("label")), (False, pl.lit(-1, pl.Int32))):
        predictions = deep_tables(["even"] * 6, ["even"] * 6, (0, 1, 2))["predictions"]
        summary = made.summarize({"predictions": predictions.with_columns(prediction=predicted)})
        found = made.of_claim(summary, "mostly_right")
        assert found["effect"] == pytest.approx(0.5 if holds else -0.5)
        assert found["verdict"] == (SUPPORTED if holds else NOT_SUPPORTED)
        others = summary.filter(pl.col("claim") != "mostly_right")
        assert set(others["verdict"]) == {NOT_MEASURED}
    order = [claim.name for claim in load_claims()]
    place = order.index("mostly_right")
    # Of another file on [K] §4.1, and of [K] §4.2.
    assert order[place - 1 : place + 2] == ["agreement_grows", "mostly_right", "retrieval_helps"]
    assert registry.declared(FOLDER, "mostly_right", "READS") == ("predictions",)


def test_a_source_that_no_order_can_be_told_from_is_an_error(claims_folder: Path) -> None:
    another = ANOTHER.replace("SOURCE", "Table 2 of [A]")
    (claims_folder / "mostly_right.py").write_text(another, encoding="utf-8")
    with pytest.raises(ValueError, match=r"mostly_right: a source is written as \[A\] §3.2"):
        load_claims()


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
        found: made.Row = made.of_claim(claims, "reweighting_over_vanilla", task)
        assert found["effect"] == pytest.approx(gain)
    table = (results / "tables/claims.md").read_text(encoding="utf-8")
    for claim in load_claims():
        assert f"| {claim.statement} |" in table
        assert f"| {claim.name} |" in table
