"""The page of claims: effects beside what they exceed, verdicts with reasons, counts by family."""

import polars as pl

from anchorflow.claims.tabulate import tabulate_claims
from constructed.verdicts import DECIDED, claims_table


def rows_of(claims: pl.DataFrame) -> dict[str, dict[str, str]]:
    """The rows of both tables, by claim."""
    page = tabulate_claims(claims, 0.95)
    tables = (page.table, page.further["Further claims"])
    return {row["claim"]: row for table in tables for row in table.iter_rows(named=True)}


def test_a_row_has_the_effect_and_what_is_left_of_it_over_control_and_null() -> None:
    page = tabulate_claims(claims_table(), 0.95)
    columns = ["claim", "effect", "over control", "over null", "marks", "verdict"]
    columns += ["measured on", "because"]
    assert page.table.columns == page.further["Further claims"].columns == columns
    # Those that answer a question, supported ones first; then the others.
    assert page.table["claim"].to_list() == [
        "flow_early",
        "anchors_faster_than_full_cache",
        "flow_late",
        "deep_auc_rises",
        "isolation_label_over_random",
        "retrieval_helps",
    ]
    others = page.further["Further claims"]["claim"].to_list()
    assert others == ["flow_into_label_words"]
    rows = rows_of(claims_table())
    # 0.5 minus 0.125, and minus 0.
    assert tuple(rows["flow_early"].values())[1:] == (
        "0.50 [0.25, 0.75]",
        "0.38 [0.25, 0.50]",
        "0.50 [0.38, 0.62]",
        "✓ ✓ ✓",
        "supported",
        "14 texts, 4 seeds",
        "",
    )
    assert tuple(rows["flow_late"].values())[3:] == (
        "-0.25 [-0.50, 0.00]",
        "✓ ✓ ✗",
        "untrained too",
        "14 texts, 4 seeds",
        "null; also true of an untrained network",
    )
    unclear = rows["flow_into_label_words"]
    assert [unclear[c] for c in columns[1:5]] == ["0.25 [-0.12, 0.62]", "–", "–", "? … …"]
    assert "95% interval" in page.note


def test_what_was_not_measured_is_a_dash_and_one_seed_has_its_interval() -> None:
    rows = {name: tuple(row.values())[1:] for name, row in rows_of(claims_table()).items()}
    assert rows["retrieval_helps"] == (
        "–",
        "–",
        "–",
        "… – –",
        "not measured",
        "14 texts, 4 seeds",
        "set retrieval: {choices: [nearest]}; the run has no table retrieval",
    )
    assert rows["isolation_label_over_random"][0] == "0.25 [0.12, 0.38]"
    assert rows["isolation_label_over_random"][4] == "not measured"
    # Nothing is left of an effect that is undefined, though control and twin have a value.
    assert rows["deep_auc_rises"][:3] == ("–", "–", "–")


def test_verdicts_are_counted_by_family_and_form() -> None:
    counts = tabulate_claims(claims_table(), 0.95).further["Verdicts by family"]
    named = {
        (row.pop("family"), row.pop("form")): row
        for row in counts.drop("model").iter_rows(named=True)
    }
    none = dict.fromkeys(("supported", "untrained too", "undecided", "not measured"), 0)
    assert named == {
        ("[A] §2.1", "paper"): {**none, "supported": 1, "untrained too": 1},
        ("[A] §2.1", "discriminating"): {**none, "undecided": 1},
        ("[A] §2.2", "discriminating"): {**none, "not measured": 1},
        ("[A] §2.3", "paper"): {**none, "undecided": 1},
        ("[A] §3.2", "discriminating"): {**none, "supported": 1},
        ("[K] §4.2", "paper"): {**none, "not measured": 1},
    }


def test_several_models_have_rows_of_their_own() -> None:
    both = pl.concat([claims_table(), claims_table("other")])
    page = tabulate_claims(both, 0.95)
    assert sorted(page.table["model"].to_list()) == ["other"] * 6 + ["tiny"] * 6
    told = page.further["What is compared"]
    assert told["claim"].to_list() == list(DECIDED)
    assert told["null"][0] == "the same network, untrained"
    by_task = page.further["Verdicts by task"]
    assert by_task.columns == ["model", "claim", "news", "average"]
    assert len(by_task) == 14
