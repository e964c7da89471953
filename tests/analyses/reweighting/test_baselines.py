"""Calibrations by hand, random words of the texts, and logistic regression on attention."""

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.reweighting.baselines import FOLDER, Observed, baseline, draw_inputs
from anchorflow.analyses.reweighting.baselines.attention_regression import attention_regression
from anchorflow.analyses.reweighting.baselines.bias_removed import without_bias
from anchorflow.analyses.reweighting.baselines.calibrated import CONTENT_FREE, calibrated
from anchorflow.analyses.reweighting.baselines.domain_calibrated import inputs
from anchorflow.config import registry
from anchorflow.random_draws import generator


def test_calibration_divides_by_the_mean_without_content() -> None:
    probabilities = np.array([[0.6, 0.4], [0.9, 0.1]])
    content_free = np.array([[0.9, 0.1], [0.7, 0.3]])  # mean 0.8, 0.2
    expected = [[0.75 / 2.75, 2 / 2.75], [1.125 / 1.625, 0.5 / 1.625]]
    np.testing.assert_allclose(calibrated(probabilities, content_free), expected)


def test_batch_calibration_divides_by_the_mean_over_all_test_texts() -> None:
    vanilla = np.array([[0.6, 0.4], [0.9, 0.1], [0.6, 0.4]])  # mean 0.7, 0.3
    answers = baseline("batch_calibrated").predict(observed()._replace(vanilla=vanilla))
    # 6/7 to 4/3 is 18 to 28; 9/7 to 1/3 is 27 to 7.
    np.testing.assert_allclose(answers, [[18 / 46, 28 / 46], [27 / 34, 7 / 34], [18 / 46, 28 / 46]])
    logarithms = np.log(vanilla) - np.log([0.7, 0.3])
    assert answers.argmax(1).tolist() == logarithms.argmax(1).tolist() == [1, 0, 1]


def test_random_words_are_as_many_as_a_text_has_and_as_frequent_as_in_all_of_them() -> None:
    texts = ["the  film the", "The\nend the the", "bad."]  # 8 words, 2.67 in each
    drawn = [text.split(" ") for text in inputs(texts, generator(0, "mine"))]
    assert [len(words) for words in drawn] == [3] * 20
    flat = [word for words in drawn for word in words]
    assert set(flat) == {"the", "film", "The", "end", "bad."}
    # Half of 60 with a standard deviation of 3.9, and an eighth of 60 with one of 2.6.
    assert flat.count("the") == pytest.approx(30, abs=12)
    assert flat.count("bad.") == pytest.approx(7.5, abs=7)
    assert any({"the", "bad."} <= set(words) for words in drawn)  # of different texts
    # Texts without blanks, and of blanks alone, are one word each.
    assert set(inputs(["电影很好", "\x1c"], generator(0, "mine"))) == {"电影很好", "\x1c"}


def samples_of(*texts: str) -> pl.DataFrame:
    """Texts with fixed demonstrations, as far as inputs depend on them."""
    return pl.DataFrame(
        {"task": "mine", "seed": 3, "demonstrations": "fixed", "text": texts}
    ).with_row_index("example")


def run(samples: pl.DataFrame, *left_out: int) -> pl.DataFrame:
    """Their prompts, of which some are too long."""
    return samples.select("example", "demonstrations").with_columns(
        skipped=pl.when(pl.col("example").is_in(left_out)).then(pl.lit("too long"))
    )


def test_random_words_repeat_for_a_seed_and_differ_between_seeds_and_tasks() -> None:
    samples = samples_of("a b c d", "e f g h")
    names, prompts = ["domain_calibrated"], run(samples)
    drawn = draw_inputs(names, samples, prompts)
    several = draw_inputs([*names, "calibrated", "attention_regression"], samples, prompts)
    assert several == {**drawn, "calibrated": list(CONTENT_FREE)}
    for change in ({"seed": 4}, {"task": "yours"}):
        others = samples.with_columns(**{name: pl.lit(value) for name, value in change.items()})
        assert draw_inputs(names, others, prompts) != drawn


def test_inputs_have_all_fields_of_the_texts() -> None:
    samples = samples_of("a b\x1fand more", "c d\x1fand more")
    names = ["calibrated", "domain_calibrated"]
    inputs = draw_inputs(names, samples, run(samples), 2)
    assert inputs["calibrated"] == ["N/A\x1fN/A", "\x1f", "[MASK]\x1f[MASK]"]
    first, second = zip(*(text.split("\x1f") for text in inputs["domain_calibrated"]), strict=True)
    assert {word for text in second for word in text.split()} == {"and", "more"}
    assert not {"and", "more"} & {word for text in first for word in text.split()}


def test_texts_whose_prompts_are_too_long_lend_inputs_neither_words_nor_length() -> None:
    samples = samples_of("a b c", "d e f", "g " * 1000)
    drawn = draw_inputs(["domain_calibrated"], samples, run(samples, 2))["domain_calibrated"]
    assert {len(text.split()) for text in drawn} == {3}
    assert "g" not in "".join(drawn)
    assert draw_inputs(["domain_calibrated"], samples, run(samples, 0, 1, 2)) == {}


def test_regression_finds_the_head_that_attends_to_the_right_label_word() -> None:
    random = np.random.default_rng(0)
    labels = np.tile([0, 1, 2], 30)
    features = random.uniform(0, 1e-4, (90, 30))  # attention is small
    features[np.arange(90), 10 + labels] += 3e-4
    predict = attention_regression(features[:60], labels[:60])
    probabilities = predict(features[60:])
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert probabilities.argmax(1).tolist() == labels[60:].tolist()


def test_regression_bears_attention_that_is_always_zero() -> None:
    features = np.array([[0.0, 0.1], [0.0, 0.2], [0.0, 0.1], [0.0, 0.2]])
    predict = attention_regression(features, np.array([0, 1, 0, 1]))
    assert predict(np.array([[0.0, 0.1]])).argmax() == 0


def observed(texts: int = 5, classes: int = 3, inputs: int = 3) -> Observed:
    """Random probabilities and attention, with four training texts of each class."""
    random = np.random.default_rng(0)
    even = np.ones(classes)
    return Observed(
        random.dirichlet(even, texts),
        random.uniform(0, 1, (texts, 8)),
        random.uniform(0, 1, (4 * classes, 8)),
        np.tile(np.arange(classes), 4),
        random.dirichlet(even, 4 * classes),
        random.dirichlet(even, inputs),
    )


@pytest.mark.parametrize("name", registry.entries(FOLDER))
def test_every_baseline_says_what_it_is_and_answers_with_probabilities(name: str) -> None:
    assert registry.summary_of(FOLDER, name).endswith(".")
    assert name not in ("vanilla", "many", "training", "fixed", "per_example")
    assert not name.startswith("reweighted")
    answers = baseline(name).predict(observed())
    assert answers.shape == (5, 3)
    np.testing.assert_allclose(answers.sum(1), 1)


def test_without_bias_what_a_text_says_of_labels_counts_beyond_what_other_texts_do() -> None:
    """Log probabilities of the unscored texts are on average those of .8 and .2."""
    unscored = np.array([[0.8, 0.2], [0.8, 0.2]])
    found = without_bias(np.array([[0.8, 0.2], [0.6, 0.4]]), unscored)
    assert found[0] == pytest.approx([0.5, 0.5])
    assert found[1] == pytest.approx([(0.6 / 0.8) / (0.6 / 0.8 + 2), 2 / (0.6 / 0.8 + 2)])
    # The mean is that of logarithms: of .5 and .125, .25.
    halved = without_bias(np.array([[0.5, 0.25]]), np.array([[0.5, 0.25], [0.125, 0.25]]))
    assert halved[0] == pytest.approx([2 / 3, 1 / 3])


def test_baselines_take_their_part_of_what_is_observed() -> None:
    seen = observed()
    for name in ("calibrated", "domain_calibrated"):
        of_inputs = calibrated(seen.vanilla, seen.inputs)
        np.testing.assert_array_equal(baseline(name).predict(seen), of_inputs)
    np.testing.assert_array_equal(
        baseline("attention_regression").predict(seen),
        attention_regression(seen.features, seen.labels)(seen.attention),
    )
