"""What answers follow, by hand: the mapping, the prior, neither, or only a preferred word."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.override import OVERRIDE_SUMMARY
from anchorflow.analyses.override.summarize import (
    PRIOR,
    measures_of_parts,
    over_exchanged,
    parts_of_seed,
    with_prior,
)
from anchorflow.schemas.frames import frame_schema
from constructed.override import FIRST, LABELS, MEANT, SECOND, answers, example, summary


def measured(
    prior: Sequence[int],
    answer: Sequence[int],
    labels: Sequence[int] = LABELS,
    weights: Sequence[float] = (),
) -> list[float]:
    rows = with_prior(answers({PRIOR: prior, "full": answer}, 1, labels))
    of_seed = parts_of_seed(rows.sample(fraction=1, shuffle=True, seed=0))
    given = np.array([weights or [1.0] * len(labels)])
    parts = of_seed.statistic(given)
    assert over_exchanged(parts)[0, 0] == pytest.approx(
        measures_of_parts(parts)[0, -1], nan_ok=True
    )
    return measures_of_parts(parts)[0].tolist()


@pytest.mark.parametrize(
    ("prior", "answer", "expected"),
    [
        # Without demonstrations always the first word; with them, what they show.
        (FIRST, LABELS, [0.5, 1, 0, 0, 1, 0, 1]),
        # The prior is what words mean, and demonstrations decide, or change nothing.
        (MEANT, LABELS, [1, 1, 0, 0, 1, 0, 1]),
        (MEANT, MEANT, [1, 0, 1, 0, 0, 1, -1]),
        (FIRST, FIRST, [0.5, 0, 1, 0, 0, 0, 0]),
        # Demonstrations change the preferred word alone: it follows the mapping of one class.
        (FIRST, SECOND, [0.5, 1, 0, 0, 1, 1, 0]),
        # Answers without a relation to texts: half of each class's are either word.
        (FIRST, [0, 1, 0, 1], [0.5, 0.5, 0.5, 0, 0.5, 0.5, 0]),
        # A prior that is the mapping leaves nothing to decide.
        (LABELS, FIRST, [0, *[np.nan] * 6]),
    ],
)
def test_measures_of_two_labels(
    prior: Sequence[int], answer: Sequence[int], expected: Sequence[float]
) -> None:
    assert measured(prior, answer) == pytest.approx(expected, nan_ok=True)


def test_other_words_count_as_neither_and_weights_as_repeated_texts() -> None:
    labels, prior, answer = [0, 0, 1, 2, 2], [1, 1, 1, 1, 1], [0, 2, 2, 1, 2]
    # Texts 0, 1, 3, 4 differ: mapping, neither, prior, mapping. Exchanged, of texts 0 and 1 with
    # those of 2 to 4: mapping 0, prior 1/3; of 3 and 4 with 0 to 2: mapping 2/3, prior 0.
    expected = [4 / 5, 1 / 2, 1 / 4, 1 / 4, 2 / 3, 2 / 3, 0]
    assert measured(prior, answer, labels) == pytest.approx(expected)
    twice = measured(prior, answer, labels, [1, 0, 1, 2, 0])
    assert twice == pytest.approx(measured([1, 1, 1, 1], [0, 2, 1, 1], [0, 1, 2, 2]), nan_ok=True)


def test_answers_without_training_follow_neither_more_than_by_chance() -> None:
    random = np.random.default_rng(0)
    found = []
    for _ in range(100):
        labels = random.integers(4, size=40)
        given = [random.choice(4, 40, p=random.dirichlet(np.ones(4))) for _ in range(2)]
        prior, answer = given
        found.append(measured(prior.tolist(), answer.tolist(), labels.tolist())[-1])
    error = np.nanstd(found) / len(found) ** 0.5
    assert abs(np.nanmean(found)) < 3 * error


def test_own_words_are_summarized_on_the_texts_and_seeds_of_the_deranged_ones() -> None:
    found = example()
    assert found.schema == frame_schema(OVERRIDE_SUMMARY)
    assert found["examples"].unique().to_list() == [12]
    rates = found.filter(task="news", measure="override").select("method", "words", "mean")
    assert rates.rows() == [
        ("full", "deranged", 1),
        ("full", "words", 1),
        ("hidden_anchor", "deranged", 0),
        ("hidden_anchor", "words", 1),
    ]
    over = found.filter(pl.col("task") == "news", measure="over_exchanged")
    assert over["mean"].to_list() == [1, 1, 0, 0]


def test_a_way_that_was_measured_with_deranged_words_alone_has_no_values_with_own_ones() -> None:
    found = summary({PRIOR: FIRST, "full": LABELS}, {PRIOR: FIRST, "hidden_anchor": LABELS})
    values = dict(found.filter(task="news", measure="override").select("words", "mean").rows())
    assert values == {"deranged": 1, "words": None}


def test_a_minority_of_overridden_answers_is_less_than_what_meanings_decide() -> None:
    """A share q of answers follows the mapping, the others what words mean: 2 q - 1."""
    labels, meant = [0] * 5 + [1] * 5, [1] * 5 + [0] * 5
    answer = [0, 0, 1, 1, 1, 1, 1, 0, 0, 0]
    found = measured(meant, answer, labels)
    assert found[4:] == pytest.approx([0.4, 0.6, -0.2])


def test_a_share_of_few_texts_has_the_interval_of_few_texts() -> None:
    """Two texts of four decide where the prior is one word, and all four where it is a meaning."""
    own = {PRIOR: FIRST, "full": LABELS}
    lows = []
    for prior in (FIRST, MEANT):
        found = summary({PRIOR: prior, "full": LABELS}, own)
        of_measures = found.filter(task="news", words="deranged")
        rate, over = (of_measures.filter(measure=n) for n in ("override", "over_exchanged"))
        assert rate["mean"].item() == over["mean"].item() == 1
        # Exchanged answers are of several texts, and no better known than those that decide.
        assert rate["low"].item() == pytest.approx(over["low"].item())
        lows.append(rate["low"].item())
    of_two, of_four = lows
    assert 1 - of_two == pytest.approx((4 + 2) / (2 + 2) * (1 - of_four))
