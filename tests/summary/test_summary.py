"""The page to open first: answers, surprises and counts for any run, worked out by hand."""

import re
from typing import Any

import polars as pl
import pytest

from anchorflow.claims.summarize import load_claims
from anchorflow.summary.answers import questions, surprises
from anchorflow.summary.facts import accuracies, costs, described, sections_of
from anchorflow.summary.facts import gains as gains_of
from anchorflow.summary.page import WIDTH, for_terminal, write_summary
from constructed.verdicts import ALSO_UNTRAINED, DECIDED, SUPPORTED, UNCLEAR, claims_table, row

FIGURES = {"flow": "figures/flow/{model}.png", "retrieval": "figures/retrieval/{model}.png"}
FAILS = row((-0.25, -0.5, -0.125), "fails", "not supported", fails="effect")
NO_GAINS = pl.DataFrame(schema={"model": pl.String, "way": pl.String, "mean": pl.Float64})


def gains(**means: float) -> pl.DataFrame:
    """Differences of accuracy from the plain way, with an interval of ± 0.1."""
    rows = [
        {"model": "tiny", "way": f"with {way}", "mean": m, "low": m - 0.1, "high": m + 0.1}
        for way, m in means.items()
    ]
    schema = {**NO_GAINS.schema, "low": pl.Float64, "high": pl.Float64}
    return pl.DataFrame(rows, schema=schema)


def rows_of(claims: pl.DataFrame) -> dict[str, dict[str, str]]:
    """The rows of the questions' table, by question."""
    return {row["question"]: row for row in questions(claims, FIGURES)[1].iter_rows(named=True)}


def asked(claim: str) -> str:
    return next(known.question for known in load_claims() if known.name == claim)


def test_each_question_has_its_answer_what_it_was_compared_with_and_a_figure() -> None:
    counts, table = questions(claims_table(), FIGURES)
    assert counts == [
        "tiny: 6 questions. Yes: 2; Yes, without training too: 1; Undecided: 1; Not measured: 2."
    ]
    assert table.columns == [
        *("question", "answer", "effect", "control", "untrained network", "figure")
    ]
    rows = rows_of(claims_table())
    early = rows[asked("flow_early")]
    assert early["answer"] == "Yes"
    assert early["effect"].startswith("✓ 0.50 [0.25, 0.75] share of the three flows\n")
    assert early["control"].startswith("✓ 0.12\n")
    assert early["control"].endswith("; difference 0.38 [0.25, 0.50]")
    assert early["untrained network"] == "✓ 0.00\ndifference 0.50 [0.38, 0.62]"
    assert early["figure"] == "[flow](figures/flow/tiny.png)"
    late = rows[asked("flow_late")]
    assert late["answer"] == "Yes, without training too"
    lacking = rows[asked("retrieval_helps")]
    assert lacking["answer"] == "Not measured\n`retrieval: {choices: [nearest]}`"
    assert rows[asked("isolation_label_over_random")]["answer"] == "Not decided by one seed"
    assert rows[asked("isolation_label_over_random")]["figure"] == "–"


def test_too_few_texts_are_the_reason_even_where_no_interval_contains_0() -> None:
    few = {**UNCLEAR, "low": 0.125, "reason": "too few texts: 8 distinct ones in 2 seeds; more"}
    (row,) = rows_of(claims_table(decided={"flow_early": few})).values()
    assert row["answer"] == "Undecided: too few texts: 8 distinct ones in 2 seeds"


def test_of_several_models_each_question_stands_once_with_their_answers() -> None:
    decided = {"flow_early": SUPPORTED, "flow_late": FAILS}
    both = pl.concat([claims_table(decided=decided), claims_table("other", decided)])
    counts, table = questions(both, FIGURES)
    assert counts[1] == "other: 2 questions. Yes: 1; No: 1."
    assert table["model"].to_list() == ["tiny", "other"] * 2
    assert table["question"].to_list() == [asked("flow_early"), "", asked("flow_late"), ""]


def test_what_surprises_is_found_by_rule() -> None:
    decided = {"flow_early": SUPPORTED, "flow_late": ALSO_UNTRAINED, "retrieval_helps": FAILS}
    found = surprises(claims_table(decided=decided), gains(more=-0.2, nearest=0.3))
    assert len(found) == 3
    assert found[0].startswith("Also true of an untrained network: “In late layers, ")
    assert "0.50 [0.25, 0.75]" in found[0]
    assert "difference -0.25 [-0.50, 0.00]" in found[0]
    assert found[1].startswith("The opposite was found: “The nearest training texts ")
    assert found[2] == (
        "Accuracy is lower with more than with plain in-context learning: -0.20 [-0.30, -0.10]."
    )


def test_one_seed_surprises_nobody() -> None:
    below = {**FAILS, "effect_mark": "unclear", "verdict": "not measured"}
    said = surprises(claims_table(decided={"retrieval_helps": below}), gains())
    assert said == ["Nothing surprising was found."]
    rows = [
        {"model": model, "task": "average", "measure": "accuracy_gain", "method": "many"}
        | {"mean": -0.2, "low": -0.3, "high": -0.1, "seeds": count}
        for model, count in (("one", 1), ("two", 2))
    ]
    assert gains_of({"reweighting": pl.DataFrame(rows)})["model"].to_list() == ["two"]


def test_neighbors_that_do_as_well_as_label_words_surprise() -> None:
    decided = {"isolation_label_over_random": SUPPORTED, "isolation_label_over_neighbors": UNCLEAR}
    (found,) = surprises(claims_table(decided=decided), gains())
    assert found.startswith("Not clearly above 0: “In early layers, isolating label words changes")
    assert "tokens next to them" in found.partition("But:")[0]
    assert "random tokens" in found.partition("But:")[2]


@pytest.mark.parametrize("decided", [{"flow_early": SUPPORTED}, {"flow_early": UNCLEAR}])
def test_where_nothing_surprises_the_page_says_so(decided: dict[str, Any]) -> None:
    found = surprises(claims_table(decided=decided), gains(more=0.05))
    assert found == ["Nothing surprising was found."]


def accuracy(tasks: tuple[str, ...]) -> pl.DataFrame:
    rows = [
        {"model": "tiny", "task": task, "measure": name, "mean": m, "low": m, "high": m}
        for task in tasks
        for name, m in (("accuracy", 0.75), ("majority", 0.5))
    ]
    return pl.DataFrame(rows).with_columns(examples=pl.lit(12), texts=pl.lit(6), seeds=pl.lit(3))


def test_chance_stands_beside_accuracies_and_what_was_not_measured_has_no_column() -> None:
    labels = {"news": ["a", "b", "c", "d"], "mine": [" x", " y"]}
    table = accuracies({"accuracy": accuracy(("news", "mine", "average"))}, labels)
    assert table.columns == ["task", "chance", "most frequent label", "plain"]
    assert table["chance"].to_list() == ["0.25", "0.5", "0.38"]
    assert table["plain"].to_list() == ["0.75 [0.75, 0.75]"] * 3


def test_one_task_has_no_average_and_many_labels_are_counted() -> None:
    labels = {"news": [f" word {number}" for number in range(20)]}
    table = accuracies({"accuracy": accuracy(("news", "average"))}, labels)
    assert table["task"].to_list() == ["news"]
    run = {"models": ["tiny"], "labels": labels, "seeds": ["0"], "demonstrations": 1}
    said = described({**run, "twins": [], "compared": []})
    assert said[1].endswith("word 4, word 5, … 20 labels).")
    assert said[3] == "Untrained networks: none."


USAGE = pl.DataFrame(
    {
        "rule": [*["measure_flow"] * 2, "plot_flow", "plot_flow_page_index", "prepare_model"],
        "names": [["tiny", "news", "0"], ["tiny+initialized-0", "news", "0"], ["tiny"], [], []],
        "seconds": [10.0, 8.0, 2.0, 1.0, 5.0],
        "cpu_seconds": [12.0, 9.0, 2.0, 1.0, 4.0],
    }
)


def test_time_is_added_up_by_analysis_with_that_of_untrained_networks() -> None:
    tables = {"flow": pl.DataFrame({"seeds": [3, 3], "examples": [12, 36], "texts": [4, 8]})}
    table = costs(tables, USAGE, ["tiny+initialized-0"])
    assert table.rows() == [
        ("flow", 3, 36, 8, 23.0, 9.0, 20.0, 3),
        ("preparation", None, None, None, 4.0, 0.0, 5.0, 1),
        ("flow_page", None, None, None, 1.0, 0.0, 1.0, 1),
        ("all", None, None, None, 28.0, 9.0, 26.0, 5),
    ]


def test_the_page_is_written_for_a_browser_and_for_a_terminal(tmp_path: Any) -> None:
    run = {"models": ["tiny"], "labels": {"news": [" x*`", " y"]}, "seeds": ["0", "1"]}
    run |= {"twins": ["tiny+initialized-0"], "compared": ["flow"], "figures": FIGURES}
    rows = [("train", 0, "good", 1), ("train", 1, "bad", 0), ("test", 0, "new", 1)]
    rows += [("test", 1, "good ", 1)]
    texts = pl.DataFrame(rows, ["split", "row", "text", "label"], orient="row")
    samples = {"task": "news", "seed": [0, 1], "demonstrations": "fixed", "example": [0, 0]}
    tables = {"claims": claims_table(), "accuracy": accuracy(("news", "average"))}
    tables |= {"texts": texts.with_columns(task=pl.lit("news")), "samples": pl.DataFrame(samples)}
    paths = {kind: tmp_path / f"summary.{kind}" for kind in ("md", "html")}
    spent = costs(tables, USAGE, ["tiny+initialized-0"])
    whole = {**run, "test_examples": 2, "demonstrations": 1}
    write_summary(paths, "Summary", sections_of(tables, whole, spent, 0.95))
    markdown, html = (paths[kind].read_text("utf-8") for kind in ("md", "html"))
    titles = [line for line in markdown.splitlines() if line.startswith("## ")]
    assert titles == [
        *("## Questions and answers", "## What surprises"),
        *("## What the model does", "## What was run"),
    ]
    assert '<a href="figures/flow/tiny.png">flow</a>' in html
    assert html.count("<tr>") == 1 + len([c for c in DECIDED if asked(c)]) + 1 + 1 + 1 + 4
    assert (
        "Texts of news: train, x*` 1, y 1; test, x*` 0, y 2. "
        "Drawn: 2 test texts in 2 seeds, 1 of them distinct."
    ) in html
    assert r"- Tasks: news (x\*\`, y)." in markdown
    assert "Tasks: news (x*`, y)." in for_terminal(markdown)
    assert "news: all test texts have the label y." in html
    shown = for_terminal(markdown)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert "QUESTIONS AND ANSWERS" in shown
    assert re.search(r"Yes, without +.*\n.*training too", shown)
    assert "figures/" not in shown
