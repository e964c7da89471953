"""Other label words: measures worked out by hand."""

from typing import Any

import polars as pl
import pytest

from anchorflow.analyses.label_words import LABEL_WORDS_SUMMARY
from anchorflow.analyses.label_words.summarize import named_labels
from anchorflow.analyses.label_words.tabulate import tabulate_label_words
from anchorflow.random_draws import drawn_texts
from anchorflow.schemas.frames import frame_schema
from constructed.label_words import ASKED, SHARES, WORDS, summary, tables


def row(rows: pl.DataFrame, task: str, words: str, measure: str) -> dict[str, Any]:
    (found,) = rows.filter(task=task, words=words, measure=measure).to_dicts()
    return found


def test_accuracy_is_of_the_words_shown_and_changes_are_paired() -> None:
    rows = summary()
    assert rows.schema == frame_schema(LABEL_WORDS_SUMMARY)
    assert row(rows, "mine", "words", "accuracy")["mean"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert row(rows, "mine", "permuted", "accuracy")["mean"] == pytest.approx((0 + 1) / 2)
    # Seed 0 has three examples in common, two of which the own words get right.
    change = row(rows, "mine", "permuted", "accuracy_change")
    assert change["mean"] == pytest.approx((-2 / 3 + 1 / 2) / 2)
    assert (change["examples"], change["seeds"], change["skipped"]) == (5, 2, 1)
    # Half of the difference of the two, 7/12, by t, which is 1 at .75 with one degree of freedom.
    # That the seeds share two texts adds nothing: their changes, -1 and -1, -1 and 1, do not vary
    # together. At .95, t is 6.3, which would reach beyond the largest possible change.
    inner = row(summary(confidence=0.5), "mine", "permuted", "accuracy_change")
    ends = pytest.approx((-1 / 12 - 7 / 12, -1 / 12 + 7 / 12), rel=1e-6)
    assert (inner["low"], inner["high"]) == ends
    assert (change["low"], change["high"]) == (-1, 1)
    assert row(rows, "mine", "words", "accuracy")["examples"] == 6
    # Where the same examples go wrong with both, few texts do not show that others would not.
    same = row(rows, "mine", "symbols", "accuracy_change")
    assert (same["mean"], same["low"], same["high"]) == (0, -1, 1)
    alone = row(rows, "mine", "symbols", "accuracy")
    assert (alone["low"], alone["high"]) == (0, 1)  # 0.625 ± 0.79 or more
    own = rows.filter(words="words")
    assert "accuracy_change" not in own["measure"]


def test_a_permuted_word_can_be_taken_by_its_own_meaning() -> None:
    rows = summary()
    meaning = rows.filter(measure="follows_meaning")
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
        chosen = rows.filter(task=task, words=words)
        by_layer = chosen.filter(pl.col("measure").is_in(["s_wp_share", "s_pq_share"]))
        assert by_layer["layer"].to_list() == [*range(6), *range(6)]
        assert by_layer["mean"].to_list() == pytest.approx([*wp, *pq])
        assert row(chosen, task, words, "s_wp_early")["mean"] == pytest.approx((wp[0] + wp[1]) / 2)
        assert row(chosen, task, words, "s_pq_late")["mean"] == pytest.approx((pq[4] + pq[5]) / 2)


def test_auc_is_of_each_layer_and_averaged_over_the_last_third() -> None:
    rows = summary()
    # Early, attention ties. Late, the predicted label's word gets the most of two, or the least.
    for words, late in (("words", 1.0), ("symbols", 0.0), ("permuted", 1.0)):
        chosen = rows.filter(task="mine", words=words)
        by_layer = chosen.filter(measure="auc")
        assert by_layer["layer"].to_list() == [*range(6)]
        assert by_layer["mean"].to_list() == pytest.approx([0.5] * 4 + [late] * 2)
        assert row(chosen, "mine", words, "auc_late")["mean"] == pytest.approx(late)
    assert row(rows, "mine", "permuted", "auc_late")["skipped"] == 1
    # Of news, each seed's answers are another's: 2 and 0, then 1 alone, which has no curve.
    assert row(rows, "news", "words", "auc_late")["mean"] == pytest.approx(1)


def test_words_that_are_drawn_have_every_measure_but_a_meaning() -> None:
    drawn = {**WORDS, "mine": {"words": [" no", " yes"], "permuted": []}}
    rows = summary(words=drawn)
    of_words = rows.filter(words="permuted")
    assert "follows_meaning" not in of_words["measure"]
    assert row(rows, "mine", "permuted", "accuracy")["mean"] == pytest.approx((0 + 1) / 2)


def test_loyalty_is_that_of_the_most_first_layers_of_one_variant() -> None:
    rows = summary()
    for task, words in (("mine", "words"), ("mine", "permuted"), ("news", "symbols")):
        assert row(rows, task, words, "loyalty_label")["mean"] == 0
        assert row(rows, task, words, "loyalty_random")["mean"] == 0.5  # one draw of two
        drop = row(rows, task, words, "loyalty_drop")
        # Draws are averaged first, and then examples and seeds are all alike.
        assert (drop["mean"], drop["high"]) == (0.5, 1)
        low = 0.5 - 6.313752 / (drop["texts"] + 2)
        assert drop["low"] == pytest.approx(max(low, -1))


def test_loyalty_drops_are_paired_by_example() -> None:
    predictions, attention, saliency, isolation, prompts = tables()
    # Now seed 1 of mine is loyal throughout; seed 0 loses 1 with label words and 0.5 with others.
    loyal = (pl.col("task") == "mine") & (pl.col("seed") == 1)
    changed = isolation.with_columns(
        prediction=pl.when(loyal).then(0).otherwise("prediction").cast(pl.Int32)
    )
    rows = summary([predictions, attention, saliency, changed, prompts], confidence=0.5)
    drop, label = (row(rows, "mine", "words", f"loyalty_{name}") for name in ("drop", "label"))
    # 0.5 and 0, and t is 1 at .75 with one degree of freedom.
    assert drop["mean"] == 0.25
    assert (drop["low"], drop["high"]) == pytest.approx((0, 0.5))
    assert (label["low"], label["mean"], label["high"]) == (0, 0.5, 1)


def test_averages_are_over_all_tasks_or_undefined() -> None:
    rows = summary()
    own = [row(rows, task, "words", "accuracy")["mean"] for task in ("mine", "news")]
    assert row(rows, "average", "words", "accuracy")["mean"] == pytest.approx(sum(own) / 2)
    assert row(rows, "average", "words", "accuracy")["examples"] == 9
    permuted = row(rows, "average", "permuted", "accuracy")  # news has no such words
    assert (permuted["mean"], permuted["examples"], permuted["skipped"]) == (None, 5, 1)
    # news is all wrong with symbols and all right without: -1; mine does not change: 0.
    assert row(rows, "average", "symbols", "accuracy_change")["mean"] == -0.5
    order = rows["task"].unique(maintain_order=True).to_list()
    assert order == ["mine", "news", "average"]


def test_words_whose_prompts_are_all_too_long_keep_a_row_and_their_count() -> None:
    *measured, prompts = tables()
    gone = pl.col("task") == "mine+permuted"
    skipped = prompts.with_columns(skipped=pl.when(gone).then(pl.lit("too long")))
    rows = summary([*(table.filter(~gone) for table in measured), skipped])
    accuracy = row(rows, "mine", "permuted", "accuracy")
    assert (accuracy["mean"], accuracy["examples"], accuracy["skipped"]) == (None, 0, 6)
    assert row(rows, "mine", "permuted", "follows_meaning")["mean"] is None


def test_prompts_that_were_not_asked_for_are_not_skipped() -> None:
    """Flow of the first seed alone, and of one text: all others were left out on purpose."""
    predictions, attention, flow, isolation, prompts = tables()
    first = flow.filter(seed=0)
    one = drawn_texts(first, 1)
    asked = {**ASKED, "flow": ([0], 1)}
    rows = summary([predictions, attention, one, isolation, prompts], asked=asked)
    assert row(rows, "mine", "words", "s_wp_early")["skipped"] == 0
    assert row(rows, "mine", "words", "s_wp_early")["examples"] == 1


def test_the_table_has_a_row_per_task_and_words() -> None:
    table = tabulate_label_words(summary()).table
    words = {"mine": ["words", "symbols", "permuted"], "news": ["words", "symbols"]}
    words["average"] = words["mine"]
    rows = [(task, name) for task, of_task in words.items() for name in of_task]
    assert table.select("task", "words").rows() == rows
    assert table["follows_meaning"].to_list()[:2] == ["–", "–"]
    assert table["auc_late"][1] == "0.00"
    assert table["accuracy"][0].startswith("0.62 [")
