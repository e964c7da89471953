"""Other label words: measures worked out by hand, prompts that differ in nothing else, rebuilds."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import Checkout
from test_prompts import LABELS, TEMPLATE, StubTokenizer, samples
from test_rebuild import ATTEND, ISOLATE, MEASURE, PROMPT, cells

from anchorflow.configuration import cells_with_words, label_word_sets, task_settings
from anchorflow.errors import InputError
from anchorflow.isolation import Setting, isolated_positions
from anchorflow.label_words import named_labels, summarize_label_words
from anchorflow.label_words_figure import draw_label_words
from anchorflow.prompts import build_prompts, label_tokens
from anchorflow.tables import (
    ISOLATION,
    LABEL_WORDS,
    PREDICTIONS,
    PROMPTS,
    SALIENCY,
    frame_schema,
    read_settings,
)
from anchorflow.tabulate import tabulate_label_words

WORDS = {
    "mine": {
        "words": [" no", " yes"],
        "symbols": [" A", " B"],
        "permuted": [" yes", " no"],
    },
    "news": {"words": [" x", " y", " z"], "symbols": [" A", " B", " C"]},
}
# Of every cell: seed, example, true label, prediction. One prompt of mine+permuted is too long.
ANSWERS = {
    "mine": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 2, 0, 1), (0, 3, 1, 1), (1, 0, 0, 0), (1, 1, 1, 0)],
    "mine+symbols": [
        *[(0, 0, 0, 0), (0, 1, 1, 1), (0, 2, 0, 1), (0, 3, 1, 1), (1, 0, 0, 0), (1, 1, 1, 0)],
    ],
    "mine+permuted": [(0, 0, 0, 1), (0, 1, 1, 0), (0, 2, 0, 1), (1, 0, 0, 0), (1, 1, 1, 1)],
    "news": [(0, 5, 2, 2), (0, 7, 0, 0), (1, 5, 1, 1)],
    "news+symbols": [(0, 5, 2, 1), (0, 7, 0, 2), (1, 5, 1, 0)],
}
# Shares of S_wp and S_pq in six layers.
SHARES = {
    "own": ([0.6, 0.2, 0.1, 0.1, 0.1, 0.0], [0.1, 0.1, 0.1, 0.1, 0.5, 0.9]),
    "other": ([0.2, 0.1, 0.0, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1, 0.2, 0.4]),
}
# Predictions under isolation of one example that is predicted 0 otherwise, by draw.
ISOLATED = {"label": [1], "random": [0, 1]}


def frame(rows: list[dict[str, Any]], schema: Any) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=frame_schema(schema))


def tables() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Predictions, saliency, isolation and prompts of all cells."""
    predictions, saliency, isolation, prompts = [], [], [], []
    for cell, answers in ANSWERS.items():
        wp, pq = SHARES["other" if "+" in cell else "own"]
        for seed, example, label, prediction in answers:
            keys = {"model": "m", "task": cell, "seed": seed, "example": example}
            predicted = {**keys, "label": label, "prediction": prediction}
            predictions.append(predicted)
            prompts += [{**keys, "demonstrations": p} for p in ("fixed", "per_example")]
            for layer, (to_words, to_target) in enumerate(zip(wp, pq, strict=True)):
                flows = (to_words, to_target, 1 - to_words - to_target)
                absolute = [(example + 1) * flow for flow in flows]
                named = dict(zip(("s_wp", "s_pq", "s_ww"), absolute, strict=True))
                saliency.append({**keys, "layer": layer, **named})
            for setting, now in isolated():
                run = dict(zip(Setting._fields, setting, strict=True))
                probabilities = [1.0, 0.0] if now == 0 else [0.0, 1.0]
                isolation.append(
                    {**keys, **run, "label": label, "prediction": now}
                    | {"probabilities": probabilities, "top_tokens": [1]}
                )
    long = {"model": "m", "task": "mine+permuted", "seed": 0, "example": 3}
    prompts.append({**long, "demonstrations": "fixed", "skipped": "too long"})
    return (
        frame(predictions, PREDICTIONS),
        frame(saliency, SALIENCY),
        frame(isolation, ISOLATION),
        frame(prompts, PROMPTS),
    )


def isolated() -> list[tuple[Setting, int]]:
    """The untouched run, the first two layers as above, and settings that do not count."""
    runs = [(Setting("none", "none", 0, "none", 0), 0)]
    for positions, predicted in ISOLATED.items():
        for draw, prediction in enumerate(predicted):
            runs.append((Setting("mask", positions, draw, "first", 2), prediction))
            for other in (("zero", "first", 2), ("mask", "last", 2), ("mask", "first", 1)):
                variant, side, layers = other
                runs.append((Setting(variant, positions, draw, side, layers), 1 - prediction))
    return runs


def summary(replicates: int = 200) -> pl.DataFrame:
    return summarize_label_words(*tables(), WORDS, "per_example", "mask", replicates, 0.9)


def row(rows: pl.DataFrame, task: str, words: str, measure: str) -> dict[str, Any]:
    return rows.row(
        by_predicate=(pl.col("task") == task)
        & (pl.col("words") == words)
        & (pl.col("measure") == measure),
        named=True,
    )


def test_accuracy_is_of_the_words_shown_and_changes_are_paired() -> None:
    rows = summary()
    assert rows.schema == frame_schema(LABEL_WORDS)
    assert row(rows, "mine", "words", "accuracy")["mean"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert row(rows, "mine", "permuted", "accuracy")["mean"] == pytest.approx((0 + 1) / 2)
    # Seed 0 has three examples in common, two of which the own words get right.
    change = row(rows, "mine", "permuted", "accuracy_change")
    assert change["mean"] == pytest.approx((-2 / 3 + 1 / 2) / 2)
    assert (change["examples"], change["seeds"], change["skipped"]) == (5, 2, 1)
    assert row(rows, "mine", "words", "accuracy")["examples"] == 6
    # Where the same examples go wrong with both, resampling moves both alike.
    same = row(rows, "mine", "symbols", "accuracy_change")
    assert (same["mean"], same["low"], same["high"]) == (0, 0, 0)
    alone = row(rows, "mine", "symbols", "accuracy")
    assert alone["low"] < alone["mean"] < alone["high"]
    own = rows.filter(pl.col("words") == "words")
    assert "accuracy_change" not in own["measure"]


def test_a_permuted_word_can_be_taken_by_its_own_meaning() -> None:
    rows = summary()
    meaning = rows.filter(pl.col("measure") == "follows_meaning")
    assert meaning.select("task", "words").rows() == [("mine", "permuted"), ("average", "permuted")]
    # " yes" for label 0 is a "no" by the words shown, label 1 by its meaning.
    assert meaning["mean"].to_list() == [(1 + 0) / 2, None]  # news has no permuted words
    assert named_labels([" b", " c", "a"], ["a", " b", " c"]) == [1, 2, 0]
    assert named_labels([" b", " c", " d"], [" a", " b", " c"]) is None


def test_shares_are_by_layer_and_averaged_over_thirds_of_the_layers() -> None:
    rows = summary()
    for task, words, (wp, pq) in (
        ("mine", "words", SHARES["own"]),
        ("news", "symbols", SHARES["other"]),
    ):
        chosen = rows.filter(pl.col("task") == task, pl.col("words") == words)
        by_layer = chosen.filter(pl.col("layer").is_not_null())
        assert by_layer["layer"].to_list() == [*range(6), *range(6)]
        assert by_layer["mean"].to_list() == pytest.approx([*wp, *pq])
        assert row(chosen, task, words, "s_wp_early")["mean"] == pytest.approx((wp[0] + wp[1]) / 2)
        assert row(chosen, task, words, "s_pq_late")["mean"] == pytest.approx((pq[4] + pq[5]) / 2)


def test_loyalty_is_that_of_the_most_first_layers_of_one_variant() -> None:
    rows = summary()
    for task, words in (("mine", "words"), ("mine", "permuted"), ("news", "symbols")):
        assert row(rows, task, words, "loyalty_label")["mean"] == 0
        assert row(rows, task, words, "loyalty_random")["mean"] == 0.5  # one draw of two
        drop = row(rows, task, words, "loyalty_drop")
        assert drop["mean"] == 0.5
        assert drop["low"] < 0.5 < drop["high"]  # draws are resampled too


def test_averages_are_over_all_tasks_or_undefined() -> None:
    rows = summary()
    own = [row(rows, task, "words", "accuracy")["mean"] for task in ("mine", "news")]
    assert row(rows, "average", "words", "accuracy")["mean"] == pytest.approx(sum(own) / 2)
    assert row(rows, "average", "words", "accuracy")["examples"] == 9
    assert row(rows, "average", "permuted", "accuracy")["examples"] == 5
    assert row(rows, "average", "permuted", "accuracy")["skipped"] == 1
    assert row(rows, "average", "permuted", "accuracy")["mean"] is None  # news has no such words
    # news is all wrong with symbols and all right without: -1; mine does not change: 0.
    assert row(rows, "average", "symbols", "accuracy_change")["mean"] == -0.5
    order = rows["task"].unique(maintain_order=True).to_list()
    assert order == ["mine", "news", "average"]


def test_words_whose_prompts_are_all_too_long_keep_a_row_and_their_count() -> None:
    predictions, saliency, isolation, prompts = tables()
    gone = pl.col("task") == "mine+permuted"
    rows = summarize_label_words(
        predictions.filter(~gone),
        saliency.filter(~gone),
        isolation.filter(~gone),
        prompts.with_columns(skipped=pl.when(gone).then(pl.lit("too long"))),
        WORDS,
        "per_example",
        "mask",
        100,
        0.9,
    )
    accuracy = row(rows, "mine", "permuted", "accuracy")
    assert (accuracy["mean"], accuracy["examples"], accuracy["skipped"]) == (None, 0, 6)
    assert row(rows, "mine", "permuted", "follows_meaning")["mean"] is None


def test_nothing_to_summarize_is_said() -> None:
    predictions, *others = tables()
    with pytest.raises(InputError, match="every prompt exceeds"):
        summarize_label_words(predictions.clear(), *others, WORDS, "per_example", "mask", 100, 0.9)


def test_the_table_has_a_row_per_task_and_words() -> None:
    table = tabulate_label_words(summary())
    assert table.select("task", "words").rows() == [
        ("mine", "words"),
        ("mine", "symbols"),
        ("mine", "permuted"),
        ("news", "words"),
        ("news", "symbols"),
        ("average", "words"),
        ("average", "symbols"),
        ("average", "permuted"),
    ]
    assert table["follows_meaning"].to_list()[:2] == ["–", "–"]
    assert table["accuracy"][0].startswith("0.62 [")


def test_the_figure_takes_any_number_of_words(tmp_path: Path) -> None:
    style = {"panel_width": 2, "font_size": 8, "resolution": 50, "colors": ["#000000"] * 3}
    draw_label_words(summary(), WORDS, style, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_a_cell_has_its_task_s_settings_with_other_labels() -> None:
    news = {"template": "t", "labels": [" x", " y"], "label_words": {"symbols": [" A", " B"]}}
    config = {"tasks": {"plain": {"labels": [" 1", " 2"]}, "news": news}}
    assert task_settings("news", config) is news
    assert task_settings("news+symbols", config) == {**news, "labels": [" A", " B"]}
    assert cells_with_words(config) == ["news", "news+symbols"]
    assert label_word_sets(config) == {"news": {"words": [" x", " y"], "symbols": [" A", " B"]}}
    for cell, sentence in (
        (
            "news+symbol",
            'tasks.news.label_words: "symbol" is not in the configuration (did you mean '
            '"symbols"?); it has symbols.',
        ),
        (
            "plain+symbols",
            'tasks.plain.label_words: "symbols" is not in the configuration; it has none.',
        ),
        (
            "new+symbols",
            'tasks: "new" is not in the configuration (did you mean "news"?); it has plain, news.',
        ),
    ):
        with pytest.raises(InputError) as error:
            task_settings(cell, config)
        assert str(error.value) == sentence


def test_no_label_words_to_compare_is_said() -> None:
    with pytest.raises(InputError, match=r"^tasks: none of them has label_words"):
        cells_with_words({"tasks": {"plain": {"labels": [" 1", " 2"]}}})


def test_prompts_with_other_words_differ_in_the_label_tokens_alone() -> None:
    tokenizer = StubTokenizer(r"[^ \n]+|\n")
    drawn = samples(["one", "two words"])
    own = build_prompts(drawn, tokenizer, TEMPLATE, LABELS, "tiny", 100)
    other = build_prompts(drawn, tokenizer, TEMPLATE, LABELS[::-1], "tiny", 100, "reviews+swapped")
    assert set(other["task"]) == {"reviews+swapped"}
    assert other["label_tokens"][0].to_list() == own["label_tokens"][0].to_list()[::-1]
    replaced = ["task", "token_ids", "label_tokens"]
    assert other.drop(replaced).equals(own.drop(replaced))
    for mine, theirs in zip(own.iter_rows(named=True), other.iter_rows(named=True), strict=True):
        pairs = zip(mine["token_ids"], theirs["token_ids"], strict=True)
        assert [t for t, (a, b) in enumerate(pairs) if a != b] == mine["label_positions"]
        setting = Setting("mask", "random", 0, "first", 1)
        shared = mine["query_start"]
        drawn_here, drawn_there = (isolated_positions(setting, p, shared) for p in (mine, theirs))
        assert drawn_here == drawn_there


def test_other_words_that_begin_alike_are_told_with_their_key() -> None:
    characters = StubTokenizer("(?s).")
    with pytest.raises(InputError, match=r'^tasks\.trec\.label_words\.symbols: "A" and "B" begin'):
        label_tokens("trec+symbols", characters, TEMPLATE, [" A", " B"], "tiny")


SUMMARY = {
    "Summarizing what other label words change in tiny",
    "Drawing what other label words change in tiny",
    "Tabulating what other label words change in all models",
}


def test_label_words_compute_their_own_cells_and_nothing_of_the_others(
    finished_run: Checkout,
) -> None:
    task = finished_run.config["tasks"]["reviews"]
    task["label_words"] = {"permuted": task["labels"][::-1]}
    stages = [PROMPT, ATTEND, MEASURE, ISOLATE]
    permuted = cells(stages, ["reviews+permuted"], [0, 1])
    assert finished_run.planned() == permuted | SUMMARY
    finished_run.snakemake("--cores", "2", "all")
    assert finished_run.planned() == set()
    folder = finished_run.folder / "results"
    rows = pl.read_parquet(folder / "label_words/tiny.parquet")
    assert set(rows["task"]) == {"reviews", "average"}
    assert set(rows["words"]) == {"words", "permuted"}
    assert read_settings(folder / "label_words/tiny.parquet")["label_words"]["variant"] == "mask"
    own, other = (
        pl.read_parquet(folder / f"prompts/tiny/{cell}/0.parquet")
        for cell in ("reviews", "reviews+permuted")
    )
    assert other.select("example", "demonstrations", "demonstration_labels").equals(
        own.select("example", "demonstrations", "demonstration_labels")
    )

    task["label_words"] = {"symbols": [" A", " B"], **task["label_words"]}
    symbols = cells(stages, ["reviews+symbols"], [0, 1])
    assert finished_run.planned() == symbols | SUMMARY
    task["label_words"] = {"permuted": [" Good", " Bad"]}
    assert finished_run.planned() == permuted | SUMMARY
    task["label_words"] = {"permuted": task["labels"][::-1]}
    finished_run.config["tasks"]["news"]["label_words"] = {"symbols": [" A", " B", " C", " D"]}
    assert finished_run.planned() == cells(stages, ["news+symbols"], [0, 1]) | SUMMARY
    del task["label_words"], finished_run.config["tasks"]["news"]["label_words"]
    assert finished_run.planned() == set()
    said = finished_run.snakemake("-n", "results/label_words/tiny.parquet", ok=False)
    assert "none of them has label_words to compare its own with" in said
    said = finished_run.snakemake("-n", "results/prompts/tiny/news+symbols/0.parquet", ok=False)
    assert 'tasks.news.label_words: "symbols" is not in the configuration; it has none.' in said
    said = finished_run.snakemake("-n", "results/texts/reviews+permuted.parquet", ok=False)
    assert "MissingRuleException" in said
