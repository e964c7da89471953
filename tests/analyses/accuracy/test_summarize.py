"""Accuracy: against scikit-learn, and tables of known hits, also where nothing could be run."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import accuracy_score, f1_score

from anchorflow.analyses.accuracy import ACCURACY_SUMMARY
from anchorflow.analyses.accuracy.summarize import accuracy_measures, summarize_accuracy
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_accuracy_and_macro_f1_equal_scikit_learn(classes: int) -> None:
    random = np.random.default_rng(classes)
    labels = random.integers(classes, size=50)
    guesses = np.where(random.random(50) < 0.6, labels, random.integers(classes, size=50))
    even, *others = np.ones(50), *random.multinomial(50, np.full(50, 1 / 50), 3).astype(float)
    ours = accuracy_measures(labels, guesses, classes)(np.stack([even, *others]))
    for row, weight in zip(ours, [even, *others], strict=True):
        kept = {"sample_weight": weight}
        assert row[0] == pytest.approx(accuracy_score(labels, guesses, **kept), rel=1e-12)
        assert row[1] == pytest.approx(f1_score(labels, guesses, average="macro", **kept))
    assert ours[0, 2] == np.bincount(labels).max() / 50


def test_macro_f1_of_five_examples_equals_the_value_worked_out_by_hand() -> None:
    # Class 0: 2 hits, 2 true, 3 guessed: 4/5; class 1: 1 hit, 2 true, 1 guessed: 2/3;
    # class 2: no hit, 1 true, 1 guessed: 0; class 3 neither occurs nor is guessed.
    labels, guesses = np.array([0, 0, 1, 1, 2]), np.array([0, 0, 1, 2, 0])
    measures = accuracy_measures(labels, guesses, 4)(np.ones((1, 5)))[0]
    np.testing.assert_allclose(measures, [3 / 5, (4 / 5 + 2 / 3 + 0) / 3, 2 / 5], rtol=1e-12)


def predictions(
    labels: Sequence[int], guesses: Sequence[int], task: str = "reviews", seed: int = 0
) -> pl.DataFrame:
    rows = [
        (
            *("tiny", task, seed, example, label, guess, [0.5, 0.5], 0.25, label == guess),
            *([0], ["x"], [1.0], [0, 1]),
        )
        for example, (label, guess) in enumerate(zip(labels, guesses, strict=True))
    ]
    return pl.DataFrame(rows, schema=frame_schema(PREDICTIONS), orient="row")


def prompts(run: int, skipped: int, task: str = "reviews", seed: int = 0) -> pl.DataFrame:
    """Prompts of both protocols, of which the last ones of each are too long."""
    reasons = [None] * run + ["99 tokens exceed the context of 16"] * skipped
    keys = {"model": "tiny", "task": task, "seed": seed}
    return pl.DataFrame(
        [
            {**keys, "demonstrations": protocol, "example": example, "skipped": reason}
            for protocol in ("per_example", "fixed")
            for example, reason in enumerate(reasons)
        ],
        schema=frame_schema(PROMPTS),
    )


def row_of(summary: pl.DataFrame, task: str, measure: str) -> dict:
    return summary.filter(task=task, measure=measure).row(0, named=True)


def test_seeds_are_averaged_and_tasks_then_weighed_equally() -> None:
    tables = [
        predictions([0, 1, 0, 1], [0, 1, 0, 0], seed=0),  # 0.75
        predictions([0, 1], [1, 1], seed=1),  # 0.5
        predictions([0, 0, 0, 1, 0], [0, 0, 0, 1, 0], task="news"),  # 1
    ]
    known = pl.concat([prompts(4, 0), prompts(2, 0, seed=1), prompts(5, 0, "news")])
    summary = summarize_accuracy(pl.concat(tables), known, 0.95)
    assert summary.schema == frame_schema(ACCURACY_SUMMARY)
    assert len(summary) == 3 * 7
    assert row_of(summary, "reviews", "accuracy")["mean"] == 0.625
    assert row_of(summary, "news", "accuracy")["mean"] == 1.0
    assert row_of(summary, "average", "accuracy")["mean"] == 0.8125
    assert row_of(summary, "average", "in_labels")["mean"] == 0.8125
    assert row_of(summary, "average", "label_mass")["mean"] == 0.25
    assert row_of(summary, "reviews", "majority")["mean"] == 0.5
    assert row_of(summary, "news", "majority")["mean"] == 0.8
    counts = [row_of(summary, t, "accuracy") for t in ("reviews", "news", "average")]
    assert [(c["examples"], c["seeds"]) for c in counts] == [(6, 2), (5, 1), (11, 2)]


def test_a_single_seed_s_interval_is_over_its_texts_or_of_leaving_out_each() -> None:
    labels, guesses = [0, 1] * 20, [0, 0] * 10 + [0, 1] * 10
    summary = summarize_accuracy(predictions(labels, guesses), prompts(40, 0), 0.95)
    row = row_of(summary, "reviews", "accuracy")
    half = 2.022691 * np.sqrt(0.75 * 0.25 / 39)  # t with 39 degrees of freedom
    assert [row[at] for at in ("low", "mean", "high")] == pytest.approx(
        [0.75 - half, 0.75, 0.75 + half], rel=1e-6
    )
    row = row_of(summary, "reviews", "macro_f1")
    without = [
        f1_score(np.delete(labels, text), np.delete(guesses, text), average="macro")
        for text in range(40)
    ]
    half = 2.022691 * np.sqrt(39 / 40 * ((np.array(without) - row["mean"]) ** 2).sum())
    ends = [row["mean"] - half, row["mean"] + half]
    assert [row["low"], row["high"]] == pytest.approx(ends, rel=1e-6)


def test_several_seeds_interval_is_student_s_t_on_their_accuracies() -> None:
    hits = {0: [1, 0, 0, 1], 1: [1, 1, 1, 1], 2: [1, 1, 1, 0]}  # .5, 1, .75: s = .25
    tables = [
        predictions([1] * 4, right, seed=seed).with_columns(pl.col("example") + 4 * seed)
        for seed, right in hits.items()
    ]
    known = pl.concat([prompts(4, 0, seed=seed) for seed in hits])
    row = row_of(summarize_accuracy(pl.concat(tables), known, 0.5), "reviews", "accuracy")
    half = 0.816497 * 0.25 / np.sqrt(3)  # t at .75 with 2 degrees of freedom
    assert row["mean"] == 0.75
    assert [row["low"], row["high"]] == pytest.approx([0.75 - half, 0.75 + half], rel=1e-6)


def test_skipped_prompts_are_counted_once_with_fixed_demonstrations_and_whole_words() -> None:
    """One without a prediction was left out since a whole label word after it is too long."""
    known = pl.concat([prompts(3, 3), prompts(2, 1, seed=1), prompts(2, 0, "news")])
    tables = pl.concat(
        [predictions([0, 1], [0, 1], task, seed) for task, seed in (("reviews", 0), ("reviews", 1))]
        + [predictions([0, 1], [0, 1], "news")]
    )
    summary = summarize_accuracy(tables, known, 0.95)
    for task, skipped in (("reviews", 3 + 1 + 1), ("news", 0), ("average", 5)):
        assert row_of(summary, task, "accuracy")["skipped"] == skipped
    assert row_of(summary, "reviews", "accuracy")["examples"] == 4


def test_a_task_whose_prompts_are_all_skipped_is_kept_as_unknown() -> None:
    known = pl.concat([prompts(0, 3, "news"), prompts(4, 0)])
    summary = summarize_accuracy(predictions([0, 1, 0, 1], [0, 1, 0, 0]), known, 0.95)
    for measure in ("accuracy", "macro_f1", "majority", "label_mass", "in_labels"):
        row = row_of(summary, "news", measure)
        assert (row["mean"], row["low"], row["high"]) == (None, None, None)
        assert (row["examples"], row["seeds"], row["skipped"]) == (0, 0, 3)
    assert row_of(summary, "average", "accuracy")["mean"] == 0.75
    assert row_of(summary, "average", "accuracy")["skipped"] == 3


def test_a_run_whose_prompts_are_all_skipped_still_says_so() -> None:
    nothing = pl.DataFrame(schema=frame_schema(PREDICTIONS))
    summary = summarize_accuracy(nothing, prompts(0, 3), 0.95)
    assert summary["mean"].to_list() == [None] * 14
    assert summary["skipped"].to_list() == [3] * 14
    assert set(summary["model"]) == {"tiny"}
