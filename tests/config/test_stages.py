"""What stages read and write, of untrained twins and shuffled labels too, from declarations."""

from collections.abc import Callable
from typing import Any

import pytest

from anchorflow.config import stages
from anchorflow.config.analysis import CLAIMS
from anchorflow.config.configuration import read_schema
from anchorflow.config.places import WORKFLOW

ALL: dict[str, Any] = {
    "untrained": ["shuffled"],
    "stages": ["attention", "flow", "isolation", "compression"],
    "shuffled_labels": True,
}


def listing(*keys: str) -> Callable[[str], bool]:
    """What a configuration lists that asks for these alone, of what runs may do without."""
    return lambda key: not key or key in keys


# --- nulls ---------------------------------------------------------------------------------------


def test_predictions_come_with_attention_and_only_they_are_made_with_shuffled_labels() -> None:
    assert sorted(stages.null_stages("untrained", ALL)) == sorted(ALL["stages"])
    assert stages.null_stages("shuffled", ALL) == ["attention"]
    assert stages.null_stages("untrained", ALL | {"stages": ["flow"]}) == ["flow"]
    assert stages.null_stages("shuffled", ALL | {"stages": ["compression"]}) == ["attention"]


@pytest.mark.parametrize(
    ("null", "changes"),
    [("untrained", {"untrained": []}), ("shuffled", {"shuffled_labels": False})],
)
def test_nothing_is_measured_of_what_a_run_does_not_have(
    null: str, changes: dict[str, Any]
) -> None:
    assert stages.null_stages(null, ALL | changes) == []
    assert stages.null_reads(null, ALL | changes) == {}


def test_claims_read_the_same_tables_of_nulls_by_names_of_their_own() -> None:
    assert stages.null_reads("untrained", ALL | {"stages": ["attention"]}) == {
        "untrained_attention": "attention/attention",
        "untrained_predictions": "attention/predictions",
    }
    reads = stages.null_reads("shuffled", ALL)
    assert reads["shuffled_predictions"] == "attention/predictions"
    assert "shuffled_flow" not in reads
    own = stages.read_by_claims()
    for null in ("untrained", "shuffled"):
        for name, read in stages.null_reads(null, ALL).items():
            assert own[name.removeprefix(f"{null}_")] == read


# --- seeds and texts -----------------------------------------------------------------------------

FEW: dict[str, Any] = {
    "seeds": [7, 3, 5, 1],
    "flow": {"seeds": 2, "examples": 6},
    "knockout": {"seeds": 3, "examples": 4},
    "kernel": {"seeds": 1},
    "isolation": {},
    "faithfulness": {},
    "controls": {},
}


def test_an_analysis_takes_the_first_seeds_and_another_follows_it() -> None:
    assert stages.seeds_of("flow", FEW) == [7, 3]
    assert stages.seeds_of("isolation", FEW) == stages.seeds_of("prompts", FEW) == [7, 3, 5, 1]
    assert stages.seeds_of("faithfulness", FEW) == stages.seeds_of("knockout", FEW) == [7, 3, 5]
    assert stages.seeds_of("probes", FEW) == stages.seeds_of("orders", FEW) == [7]
    assert stages.seeds_of("timing", FEW) == stages.seeds_of("flow_page", FEW) == [7]
    assert stages.seeds_of("flow", FEW | {"seeds": [7]}) == [7]


def test_a_summary_is_of_the_texts_measured_or_of_all_predictions() -> None:
    """Prompts are counted as skipped among the same texts; a wrong number would count others."""
    sections = ("isolation", "retrieval", "reweighting", "confusion")
    few = {**FEW, **{name: {"examples": 5} for name in sections}}
    numbers = [
        stages.texts_summarized(name, few) for name in (*sections, "attention", "label_words")
    ]
    assert numbers == [5, 5, 5, None, None, None]


def test_twins_have_at_most_the_seeds_and_texts_of_the_model() -> None:
    fewer = FEW | {"controls": {"seeds": 3, "examples": 5}}
    assert stages.seeds_of("flow", fewer, "untrained") == [7, 3]
    assert stages.seeds_of("isolation", fewer, "untrained") == [7, 3, 5]
    assert stages.seeds_of("attention", fewer, "shuffled") == [7, 3, 5]
    assert stages.seeds_of("isolation", fewer) == FEW["seeds"]
    assert stages.texts_of("flow", fewer) == {"examples": 6}
    assert stages.texts_of("flow", fewer, untrained=True) == {"examples": 5}
    assert stages.texts_of("knockout", fewer, untrained=True) == {"examples": 4}
    assert stages.texts_of("faithfulness", fewer) == {"examples": 4}
    assert (
        stages.texts_of("isolation", FEW) == stages.texts_of("isolation", FEW, untrained=True) == {}
    )


# --- what is read --------------------------------------------------------------------------------


def test_a_summary_reads_what_it_declares_and_claims_what_they_list() -> None:
    assert stages.reads_of("flow", listing()) == {"flow": "flow", "prompts": "prompts"}
    claims = stages.reads_of("claims", listing())
    assert claims["predictions"] == "attention/predictions"
    assert claims["kernel_predictions"] == "kernel/predictions"
    assert claims.items() <= stages.read_by_claims().items()
    everything = [stage.asked_for for stage in stages.STAGES.values()]
    assert stages.reads_of("claims", listing(*everything)) == stages.read_by_claims()


def test_what_only_some_runs_measure_is_left_out_of_the_others_summaries() -> None:
    assert "knockout" not in stages.reads_of("claims", listing())
    assert stages.reads_of("claims", listing("knockout.classes"))["knockout"] == "knockout"
    without, further = stages.reads_of("regressors", listing()), "further_embeddings"
    assert further not in without
    assert stages.reads_of("regressors", listing("encoder.further")) == {
        **without,
        further: further,
    }


def test_an_analysis_that_is_asked_for_reads_its_own_tables_whatever_else_a_run_has() -> None:
    """Its rules exist in every run, of which no other asks for them."""
    assert stages.reads_of("knockout", listing())["knockout"] == "knockout"
    assert "faithfulness" in stages.reads_of("faithfulness", listing())
    assert "knockout" not in stages.reads_of("faithfulness", listing())


@pytest.mark.parametrize("name", stages.PRESENTED)
def test_what_is_read_is_written(name: str) -> None:
    analysis = stages.PRESENTED[name]
    written = {
        f"{stage.name}/{file}" if file else stage.name
        for stage in stages.STAGES.values()
        for file, _, _ in stage.files()
    }
    shown = [each.reads for each in (analysis.summary, analysis.figure, analysis.table) if each]
    assert {read for reads in shown for read in reads.values()} <= written


def test_claims_stand_beside_analyses_and_are_none() -> None:
    assert "claims" not in stages.ANALYSES
    assert stages.PRESENTED["claims"].category == CLAIMS
    assert stages.folder_of("claims") == "claims"
    assert stages.folder_of("flow") == "analyses/flow"


# --- what lies where -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "stage", "table"),
    [
        ("results/texts/news.parquet", "texts", "texts"),
        ("results/flow/tiny/news/0.parquet", "flow", "flow"),
        ("results/attention/tiny/news/0/predictions.parquet", "attention", "predictions"),
        ("results/kernel/tiny/news/0/attention.parquet", "kernel", "kernel_attention"),
        ("results/reweighting/tiny/news/0/beta_anchor.parquet", "reweighting", "beta"),
        ("results/flow_page/tiny/news/0/prompts.parquet", "flow_page", "shown_prompts"),
        ("results/summaries/flow/tiny.parquet", "summaries/flow", "flow_summary"),
        ("results/summaries/theory/worlds.parquet", "summaries/theory", "theory_summary"),
        ("results/summaries/claims/tiny.parquet", "summaries/claims", "claims"),
        ("results/tables/flow.csv", "summaries/flow", "flow_summary"),
        ("results/tables/timing.csv", "timing", "timing"),
        ("results/tables/claims.csv", "summaries/claims", "claims"),
    ],
)
def test_a_path_tells_the_stage_and_the_table(path: str, stage: str, table: str) -> None:
    assert stages.stage_of(path) == stage
    assert stages.table_at(path) == table


def test_every_file_of_a_stage_is_found_by_its_path() -> None:
    for stage in stages.STAGES.values():
        for _, table, pattern in stage.files():
            path = pattern.format(model="tiny", task="news", seed=0)
            assert (stages.stage_of(path), stages.table_at(path)) == (stage.name, table)


def test_csv_files_are_listed_with_the_tables_that_they_show() -> None:
    files = stages.files_of_tables()
    of_flow = ["results/summaries/flow/{model}.parquet", "results/tables/flow.csv"]
    assert files["flow_summary"] == of_flow
    assert files["timing"][-1] == "results/tables/timing.csv"
    for table, paths in files.items():
        for path in paths:
            assert stages.table_at(path.format(model="tiny", task="news", seed=0)) == table


def test_stages_in_shards_are_those_that_declare_it() -> None:
    declared = {
        name for name, each in stages.ANALYSES.items() if each.measured and each.measured.sharded
    }
    assert set(stages.SHARDED) == declared


def test_no_package_may_name_an_analysis_as_what_a_run_has_already() -> None:
    sections = read_schema(WORKFLOW / "schemas" / "config.schema.yaml")["properties"]
    assert {stage.name for stage in stages.PREPARED} | sections.keys() - stages.ANALYSES.keys() <= {
        *stages.TAKEN
    }
