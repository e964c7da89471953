"""The page of claims: effects beside what they exceed, verdicts with reasons, counts by family."""

import polars as pl

from anchorflow.claims.tabulate import tabulate_claims
from constructed.verdicts import DECIDED, claims_table


def test_a_row_has_the_effect_and_what_is_left_of_it_over_control_and_null() -> None:
    page = tabulate_claims(claims_table(), 0.95)
    assert page.table.columns == [
        "claim",
        "form",
        "effect",
        "over control",
        "over null",
        "verdict",
        "reason",
    ]
    rows = {row[0]: row[1:] for row in page.table.rows()}
    assert set(rows) == set(DECIDED)
    # 0.5 minus 0.125, and minus 0.
    assert rows["flow_early"] == (
        "paper",
        "0.50 [0.25, 0.75]",
        "0.38 [0.25, 0.50]",
        "0.50 [0.38, 0.62]",
        "supported",
        "",
    )
    assert rows["flow_late"][3:] == (
        "-0.25 [-0.50, 0.00]",
        "not supported",
        "also true of an untrained network",
    )
    assert rows["flow_into_label_words"][:4] == ("discriminating", "0.25 [-0.12, 0.62]", "–", "–")
    assert "95% interval" in page.note


def test_what_was_not_measured_is_a_dash_and_one_seed_has_its_interval() -> None:
    rows = {row[0]: row[2:] for row in tabulate_claims(claims_table(), 0.95).table.rows()}
    assert rows["retrieval_helps"] == (
        "–",
        "–",
        "–",
        "not tested",
        "the run has no table retrieval",
    )
    assert rows["isolation_label_over_random"][0] == "0.25 [0.12, 0.38]"
    assert rows["isolation_label_over_random"][3] == "not tested"
    # Nothing is left of an effect that is undefined, though control and twin have a value.
    assert rows["deep_auc_rises"][:3] == ("–", "–", "–")


def test_verdicts_are_counted_by_family_and_form() -> None:
    counts = tabulate_claims(claims_table(), 0.95).further["Verdicts by family"]
    named = {
        (row.pop("family"), row.pop("form")): row
        for row in counts.drop("model").iter_rows(named=True)
    }
    none = dict.fromkeys(("supported", "not supported", "inconclusive", "not tested"), 0)
    assert named == {
        ("[A] §2.1", "paper"): {**none, "supported": 1, "not supported": 1},
        ("[A] §2.1", "discriminating"): {**none, "inconclusive": 1},
        ("[A] §2.2", "paper"): {**none, "not tested": 1},
        ("[A] §2.3", "paper"): {**none, "inconclusive": 1},
        ("[A] §3.2", "paper"): {**none, "supported": 1},
        ("[K] §4.2", "paper"): {**none, "not tested": 1},
    }


def test_several_models_have_rows_of_their_own() -> None:
    both = pl.concat([claims_table(), claims_table("other")])
    page = tabulate_claims(both, 0.95)
    assert page.table["model"].to_list() == ["tiny"] * 7 + ["other"] * 7
    told = page.further["What is compared"]
    assert told["claim"].to_list() == list(DECIDED)
    assert told["null"][0] == "the same network, untrained"
    by_task = page.further["Verdicts by task"]
    assert by_task.columns == ["model", "claim", "news", "average"]
    assert len(by_task) == 14
