"""Table 2: loyalty to the full prompt, and the best of random sets, chosen fairly and not."""

from typing import Any

import polars as pl
import pytest

from anchorflow.published import table_2
from anchorflow.retention import halves, retention_measures, summarize_retention
from anchorflow.tables import COMPRESSION, PROMPTS, RETENTION, frame_schema
from anchorflow.tabulate import tabulate_retention

EXAMPLES = 8


def row(method: str, example: int, draw: int, loyal: bool, **more: Any) -> dict[str, Any]:
    label = example % 2
    prediction = 0 if loyal else 1
    return {
        "model": "m",
        "task": "news",
        "seed": 0,
        "example": example,
        "method": method,
        "share": None,
        "draw": draw,
        "kept": 20 if method == "full" else 5,
        "shared": 20,
        "label": label,
        "prediction": prediction,
        "probabilities": [1.0 - prediction, float(prediction)],
        "top_tokens": [1, 2, 3, 4, 5] if loyal else [1, 2, 3, 6, 7],
        **more,
    }


def compression_of(loyal_draws: dict[int, set[int]], **more: Any) -> pl.DataFrame:
    """Everything predicts 0; anchors do so too; each random draw on the examples named."""
    rows = [row("full", e, 0, True, **more) for e in range(EXAMPLES)]
    rows += [row("hidden_anchor", e, 0, True, **more) for e in range(EXAMPLES)]
    rows += [
        row("hidden_random", e, draw, e in loyal, **more)
        for draw, loyal in loyal_draws.items()
        for e in range(EXAMPLES)
    ]
    return pl.DataFrame(rows, schema=frame_schema(COMPRESSION))


def prompts_of(tasks: list[str]) -> pl.DataFrame:
    frame = pl.DataFrame(
        [
            {"task": task, "demonstrations": "fixed", "example": e, "skipped": None}
            for task in tasks
            for e in range(EXAMPLES)
        ],
        schema_overrides={"skipped": pl.String},
    )
    names = list(frame_schema(PROMPTS))
    missing = [pl.lit(None).alias(name) for name in names if name not in frame.columns]
    return frame.with_columns(missing).select(names)


def means(summary: pl.DataFrame, method: str) -> dict[str, float]:
    rows = summary.filter(pl.col("method") == method, pl.col("task") == "news")
    return dict(rows.select("measure", "mean").iter_rows())


def test_loyalty_and_kept_share_are_measured_against_everything_kept() -> None:
    compression = compression_of({0: set(range(4)), 1: set()})
    summary = summarize_retention(compression, prompts_of(["news"]), 100, 0.9)
    assert summary.schema == frame_schema(RETENTION)
    assert means(summary, "full") == {
        "label_loyalty": 1,
        "word_loyalty": 1,
        "accuracy": 0.5,
        "kept_share": 1,
    }
    random = means(summary, "hidden_random")
    assert random["label_loyalty"] == 0.25
    assert random["word_loyalty"] == pytest.approx(0.25 + 0.75 * 3 / 7)
    assert random["accuracy"] == 0.5
    assert random["kept_share"] == 0.25
    assert set(summary.filter(method="hidden_random")["draws"]) == {2}
    assert set(summary.filter(method="hidden_random_top")["draws"]) == {1}


def test_an_oracle_takes_the_draw_that_is_best_on_the_examples_it_is_scored_on() -> None:
    compression = compression_of({0: {0}, 1: {0, 1, 2, 3, 4}, 2: {7}})
    measured = retention_measures(compression)
    oracle = measured.filter(pl.col("method") == "hidden_random_oracle")
    assert oracle["example"].sort().to_list() == list(range(EXAMPLES))
    assert oracle.filter(pl.col("label_loyalty") == 1)["example"].sort().to_list() == [*range(5)]


def test_held_out_choice_never_sees_the_half_it_is_scored_on() -> None:
    drawn = halves(pl.Series("example", range(EXAMPLES)), 0)
    one, other = (set(drawn.filter(half=half)["example"]) for half in (0, 1))
    assert len(one) == len(other) == EXAMPLES // 2
    # Draw 0 is loyal on one half only, draw 1 on the other: each choice is wrong where it counts.
    compression = compression_of({0: one, 1: other})
    measured = retention_measures(compression)
    top = measured.filter(pl.col("method") == "hidden_random_top")
    assert top["example"].sort().to_list() == list(range(EXAMPLES))
    assert set(top["label_loyalty"]) == {0}
    oracle = measured.filter(pl.col("method") == "hidden_random_oracle")
    assert oracle["label_loyalty"].mean() == 0.5
    # A draw that is loyal everywhere is found from either half.
    always = retention_measures(compression_of({0: set(range(EXAMPLES)), 1: one}))
    assert set(always.filter(pl.col("method") == "hidden_random_top")["label_loyalty"]) == {1}


def test_without_random_draws_there_is_no_best_one() -> None:
    compression = compression_of({})
    summary = summarize_retention(compression, prompts_of(["news"]), 100, 0.9)
    assert set(summary["method"]) == {"full", "hidden_anchor"}


def test_a_seed_with_one_example_has_no_held_out_choice() -> None:
    one = compression_of({0: {0}, 1: set()}).filter(pl.col("example") == 0)
    measured = retention_measures(one)
    assert measured.filter(pl.col("method") == "hidden_random_top").is_empty()
    assert measured.filter(pl.col("method") == "hidden_random_oracle").height == 1
    summary = summarize_retention(one, prompts_of(["news"]), 100, 0.9)
    assert means(summary, "hidden_random_oracle")["label_loyalty"] == 1


def test_shares_are_rows_of_their_own() -> None:
    swept = [
        row("recent", e, 0, share == 0.5, share=share)
        for share in (None, 0.5)
        for e in range(EXAMPLES)
    ]
    compression = pl.concat(
        [compression_of({}), pl.DataFrame(swept, schema=frame_schema(COMPRESSION))]
    )
    summary = summarize_retention(compression, prompts_of(["news"]), 100, 0.9)
    loyalty = summary.filter(method="recent", measure="label_loyalty", task="news")
    assert dict(loyalty.select("share", "mean").iter_rows()) == {None: 0, 0.5: 1}


def test_published_figures_stand_beside_the_average_over_the_paper_s_tasks() -> None:
    tasks = ["sst2", "trec", "agnews", "emoc"]
    assert table_2("gpt2-xl", tasks[:2]).is_empty()
    assert table_2("gemma", tasks).is_empty()
    whole = pl.concat([compression_of({0: {1}}, task=task, model="gpt-j-6b") for task in tasks])
    summary = summarize_retention(whole, prompts_of(tasks), 100, 0.9)
    cell = summary.filter(task="average", method="hidden_anchor", measure="label_loyalty")
    assert cell["published"].item() == pytest.approx(0.8906)
    assert summary.filter(pl.col("task") != "average")["published"].null_count() == len(
        summary.filter(pl.col("task") != "average")
    )
    table = tabulate_retention(summary)
    anchor = table.filter(pl.col("method") == "hidden_anchor (published)")
    assert anchor.select("label_loyalty", "accuracy").row(0) == ("0.89", "0.56")
