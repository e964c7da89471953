"""Deep layers: R_l and class scores by hand, AUCs of layers that tell all, nothing or lies."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.attention import ATTENTION_SUMMARY
from anchorflow.analyses.attention.summarize import (
    class_scores,
    cumulative_share,
    graded_auc,
    summarize_attention,
)
from anchorflow.schemas.frames import frame_schema
from constructed.attention import (
    HEADS,
    attention_table,
    attention_towards,
    deep_tables,
    predictions_table,
    prompts_table,
)

NAN = float("nan")


# task, seed, predictions, labels, and kinds of attention
Part = tuple[str, int, Sequence[int], Sequence[int], Sequence[str]]


def summarized(parts: Sequence[Part]) -> pl.DataFrame:
    """The summary of parts of a task, a seed, predictions, labels, and kinds of attention."""
    tables = [
        (
            attention_table(attention_towards(predicted, labels, kinds), labels, task, seed),
            predictions_table(predicted, len(labels), task, seed),
            prompts_table(len(labels), task, seed),
        )
        for task, seed, predicted, labels, kinds in parts
    ]
    return summarize_attention(*(pl.concat(table) for table in zip(*tables, strict=True)), 0.95)


def summarize(
    predictions: Sequence[int], labels: Sequence[int], kinds: Sequence[str], classes: int
) -> pl.DataFrame:
    return summarize_attention(
        attention_table(attention_towards(predictions, labels, kinds), labels),
        predictions_table(predictions, classes),
        prompts_table(len(labels)),
        0.95,
    )


def column(summary: pl.DataFrame, measure: str, task: str, name: str = "mean") -> list:
    """One column over the layers."""
    chosen = summary.filter(measure=measure, task=task)
    return chosen.sort("layer")[name].to_list()


@pytest.mark.parametrize(
    ("auc", "expected"),
    [
        ([0.6, 0.4, 0.9, 0.6], [0.2, 0.0, 0.8, 1.0]),  # excesses of 0.1, -0.1, 0.4, and 0.1
        ([[1.0, 0.5], [0.5, 1.0], [0.75, 0.75]], [[1.0, 1.0], [0.0, 1.0], [0.5, 1.0]]),
        ([0.75, NAN, 0.75], [0.5, 0.5, 1]),  # a layer without an AUC adds nothing
    ],
)
def test_cumulative_share_equals_the_values_worked_out_by_hand(auc: list, expected: list) -> None:
    np.testing.assert_allclose(cumulative_share(np.array(auc)), expected, atol=1e-12)


@pytest.mark.parametrize("auc", [[0.5, 0.5], [0.75, 0.25], [0.25, 0.5], [NAN, NAN]])
def test_cumulative_share_is_undefined_where_there_is_nothing_to_share(auc: list[float]) -> None:
    assert np.isnan(cumulative_share(np.array(auc))).all()


def test_class_scores_average_heads_and_demonstrations_of_a_class() -> None:
    labels = [2, 0, 1, 0, 2, 1]  # not the label order
    layer = [[0.10, 0.02, 0.00, 0.04, 0.10, 0.00], [0.30, 0.06, 0.10, 0.08, 0.10, 0.10]]
    # Class 0: mean of 0.02, 0.04, 0.06, 0.08 = 0.05; class 1: 0, 0, 0.1, 0.1 = 0.05;
    # class 2: 0.1, 0.1, 0.3, 0.1 = 0.15; together 0.25.
    scores = class_scores(attention_table(np.array([[layer]]), labels), 3)
    np.testing.assert_allclose(scores, [[[0.2, 0.2, 0.6]]], rtol=1e-6)


def test_class_scores_keep_examples_and_layers_apart_and_in_order() -> None:
    attention = np.zeros((2, 3, HEADS, 2))
    expected = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    attention[..., 0] = 0.2 * expected[:, :, None]  # shares are compared, and not amounts
    attention[..., 1] = 0.2 - attention[..., 0]
    scores = class_scores(attention_table(attention, [0, 1]), 2)
    np.testing.assert_allclose(scores[..., 0], expected, rtol=1e-6)
    np.testing.assert_allclose(scores[..., 1], 1 - expected, rtol=1e-6)


def test_class_scores_are_even_where_no_label_word_is_attended_to() -> None:
    scores = class_scores(attention_table(np.zeros((1, 1, HEADS, 4)), [0, 1, 2, 3]), 4)
    assert scores.tolist() == [[[0.25, 0.25, 0.25, 0.25]]]


@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 0, 1], [1, 2, 0, 0, 1, 2]])
def test_auc_of_layers_that_tell_all_nothing_or_lies(labels: list[int]) -> None:
    summary = summarize([0, 1, 2, 2, 0, 1, 1], labels, ["reversed", "perfect", "even"], 3)
    assert summary.schema == frame_schema(ATTENTION_SUMMARY)
    assert column(summary, "auc", "reviews") == [0.0, 1.0, 0.5]
    assert column(summary, "auc", "reviews", "unpredicted") == [0, 0, 0]
    assert column(summary, "auc", "average") == [0.0, 1.0, 0.5]


def test_cumulative_share_is_that_of_the_aucs_and_null_where_no_layer_tells_anything() -> None:
    summary = summarize([0, 1, 0, 1], [1, 0], ["even", "perfect", "even", "perfect"], 2)
    assert column(summary, "auc", "reviews") == [0.5, 1.0, 0.5, 1.0]
    assert column(summary, "cumulative", "reviews") == [0.0, 0.5, 0.5, 1.0]
    nothing = summarize([0, 1, 0, 1], [1, 0], ["even", "even"], 2)
    assert column(nothing, "cumulative", "reviews") == [None, None]
    assert column(nothing, "cumulative", "reviews", "low") == [None, None]


def test_classes_that_are_never_predicted_are_left_out_and_counted() -> None:
    summary = summarize([0, 2, 2, 0], [3, 2, 1, 0], ["perfect", "even"], 4)
    assert column(summary, "auc", "reviews") == [1.0, 0.5]
    assert column(summary, "auc", "reviews", "unpredicted") == [2, 2]
    same = summarize([1, 1, 1], [0, 1, 2], ["perfect"], 3)
    assert column(same, "auc", "reviews") == column(same, "auc", "reviews", "high") == [None]
    assert column(same, "auc", "reviews", "unpredicted") == [2]


def test_seeds_and_tasks_are_averaged_and_their_counts_added() -> None:
    parts = [
        ("reviews", 0, [0, 1, 0, 1], [0, 1], ["perfect", "perfect"]),
        ("reviews", 1, [1, 0, 1], [1, 0], ["even", "perfect"]),
        ("news", 0, [0, 2, 0, 2], [2, 1, 0], ["even", "reversed"]),
        ("news", 1, [0, 0], [1, 0, 2], ["perfect", "perfect"]),
    ]
    summary = summarized(parts)
    assert column(summary, "auc", "reviews") == [0.75, 1.0]
    assert column(summary, "auc", "news") == [0.5, 0.0]  # seed 1 predicts one class: undefined
    assert column(summary, "auc", "average") == [0.625, 0.5]
    counts = summary.filter(measure="auc", layer=0).sort("task")
    assert counts.select("task", "unpredicted", "examples", "seeds").rows() == [
        ("average", 3, 13, 2),
        ("news", 3, 6, 2),
        ("reviews", 0, 7, 2),
    ]
    # The average's share is that of its own AUCs: excesses 0.125 and 0.
    assert column(summary, "cumulative", "average") == [1.0, 1.0]


def test_the_share_s_interval_is_that_of_leaving_out_each_seed() -> None:
    kinds = (["perfect", "even"], ["even", "perfect"], ["perfect", "perfect"])
    summary = summarized([("reviews", k, [0, 1, 0, 1], [0, 1], of) for k, of in enumerate(kinds)])
    # Both layers' excess is 1/3: R_0 is 1/2. Without a seed, it is 1/3, 2/3, and 1/2, so its
    # variance is 2/3 (1/36 + 1/36); t with 2 degrees of freedom is 4.302653.
    half = 4.302653 * (1 / 27) ** 0.5
    for end, expected in (("mean", 0.5), ("low", 0.5 - half), ("high", 0.5 + half)):
        assert column(summary, "cumulative", "reviews", end)[0] == pytest.approx(expected)
    # The AUCs themselves are 1, .5, and 1; as shares, they end at 1.
    half = 4.302653 * (1 / 12) ** 0.5 / 3**0.5
    assert column(summary, "auc", "reviews", "low") == pytest.approx([5 / 6 - half] * 2, rel=1e-6)
    assert column(summary, "auc", "reviews", "high") == [1, 1]


def test_other_tokens_have_an_auc_beside_that_of_label_words() -> None:
    others = ["perfect", "reversed", "perfect"]
    tables = deep_tables(["even", "perfect", "reversed"], others, [0, 1])
    summary = summarize_attention(**tables, confidence=0.95)
    assert column(summary, "auc", "news") == [0.5, 1.0, 0.0]
    assert column(summary, "auc_other", "news") == [1.0, 0.0, 1.0]
    assert column(summary, "graded", "news") == [0.5, 1.0, 0.0]
    assert column(summary, "graded_other", "news") == [1.0, 0.0, 1.0]


def test_graded_scores_of_three_texts_equal_the_values_worked_out_by_hand() -> None:
    """Of a model that always gives the same answer, whose AUCROC_l is undefined."""
    probabilities = [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]]
    predictions = predictions_table([0, 0, 0], 2).sort("example")
    predictions = predictions.with_columns(probabilities=pl.Series(probabilities))
    # Attention to label 0 orders the pairs of texts rightly, twice of three times, and never.
    to_first = np.array([[0.3, 0.3, 0.1], [0.2, 0.1, 0.2], [0.1, 0.2, 0.3]])  # [examples, layers]
    attention = np.stack([to_first, 0.4 - to_first], -1)[:, :, None]
    auc = graded_auc(attention_table(attention, [0, 1]), predictions)
    assert auc(np.ones((1, 3)))[0].tolist() == pytest.approx([1, 2 / 3, 0])
    # Without the second text, or with it twice, which adds no pair with itself.
    assert auc(np.array([[1, 0, 1], [1, 2, 1]]))[:, 1].tolist() == pytest.approx([1, 3 / 5])
    same = predictions.with_columns(probabilities=pl.Series([[0.5, 0.5]] * 3))
    assert np.isnan(graded_auc(attention_table(attention, [0, 1]), same)(np.ones((1, 3)))).all()


def test_graded_scores_of_unrelated_attention_are_one_half() -> None:
    random = np.random.default_rng(0)
    means = []
    for _ in range(30):
        attention = random.random((12, 2, 1, 3))
        predictions = predictions_table([0] * 12, 3).sort("example")
        predictions = predictions.with_columns(
            probabilities=pl.Series(random.dirichlet([1, 1, 1], 12).tolist())
        )
        auc = graded_auc(attention_table(attention, [0, 1, 2]), predictions)
        means.append(auc(np.ones((1, 12)))[0])
    assert np.mean(means) == pytest.approx(0.5, abs=0.03)
