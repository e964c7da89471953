"""Demonstrations chosen from texts on a circle, whose nearest ones and clusters one sees."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.retrieval.samples import (
    as_fields,
    choose_demonstrations,
    cluster,
    farthest_from_centers,
    nearest,
    nearest_to_centers,
    texts_for,
)
from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from constructed.corpus import LABELS, TRAIN, Placed, corpus, fixed_samples

# Two clusters of each label. Of label 0, their centers lie at about 12° and 107°; of label 1, at
# 212° and 307°. A test text lies at a center, and the text farthest from all is there twice.
CLUSTERED: list[Placed] = [
    *(("a0", 0, 0), ("a10", 10, 0), ("c200", 200, 1), ("a26", 26, 0), ("query", 12, 0)),
    *(("b90", 90, 0), ("d330", 330, 1), ("b100", 100, 0), ("b130", 130, 0), ("b130", 130, 0)),
    *(("c210", 210, 1), ("c226", 226, 1), ("d290", 290, 1), ("d300", 300, 1)),
]
QUERIES: list[Placed] = [("query", 12, 0), ("unseen", 300, 1)]
MIXED = [1, 0, 0, 1]  # labels of the random demonstrations
CHOSEN = {
    "representative": {0: {"a10", "b100"}, 1: {"c210", "d300"}},
    # Each label's two farthest texts are of the same cluster, 17° and 23° from its center.
    "outlying": {0: {"b90", "b130"}, 1: {"d290", "d330"}},
}
ONE_FIELD, PAIR = ["text"], ["premise", "hypothesis"]


def chosen(choice: str, labels: list[int]) -> pl.DataFrame:
    texts, embeddings = corpus()
    return choose_demonstrations(texts, fixed_samples(labels), embeddings, [choice], LABELS)


def of_clusters(
    choice: str, seed: int = 0, train: Sequence[Placed] = CLUSTERED, labels: list[int] = MIXED
) -> pl.DataFrame:
    texts, embeddings = corpus(train, QUERIES)
    fixed = fixed_samples(labels, train, QUERIES, seed)
    return choose_demonstrations(texts, fixed, embeddings, [choice], LABELS)


def other_texts(*texts: str) -> pl.DataFrame:
    """A task of these training texts, all of its label 0, and a test text."""
    return corpus([(text, 0, 0) for text in texts], [("a test", 0, 0)], "other")[0]


def test_the_nearest_texts_come_last_and_of_equally_near_ones_the_first_is_nearer() -> None:
    similarity = np.array([0.5, 0.9, 0.1, 0.9, np.nan])
    labels = np.array([0, 1, 0, 0, 1])
    assert nearest(similarity, labels, {0: 1, 1: 1}, per_label=False) == [3, 1]
    assert nearest(similarity, labels, {0: 2, 1: 1}, per_label=False) == [0, 3, 1]
    assert nearest(similarity, labels, {0: 2, 1: 1}, per_label=True) == [0, 3, 1]
    assert nearest(-similarity, labels, {0: 1, 1: 1}, per_label=True) == [1, 2]
    assert nearest(similarity, labels, {1: 2}, per_label=True) == [1]


def test_the_nearest_texts_of_any_label_are_as_many_as_the_fixed_ones() -> None:
    samples = chosen("nearest", [1, 0, 0])
    assert samples.schema == frame_schema(SAMPLES)
    query = samples.row(0, named=True)
    # From 0°: east 0°, then flat and again at 10°, of which flat is the earlier row.
    assert query["demonstration_texts"] == ["again", "flat", "east"]
    assert query["demonstration_rows"] == [6, 2, 0]
    assert query["demonstration_labels"] == [1, 0, 0]
    assert samples["demonstrations"].to_list() == ["nearest"] * 2
    kept = ["task", "seed", "example", "text", "label"]
    assert samples.select(kept).equals(fixed_samples([1, 0, 0]).select(kept))


def test_texts_identical_to_the_test_text_are_left_out_and_labels_keep_their_numbers() -> None:
    for choice in ("nearest", "nearest_per_label"):
        north = chosen(choice, [0, 1]).row(1, named=True)
        assert north["demonstration_texts"] == ["middle", "steep"]
    query = chosen("nearest_per_label", [1, 0, 1, 1]).row(0, named=True)
    assert query["demonstration_texts"] == ["north", "steep", "again", "east"]
    assert query["demonstration_labels"] == [1, 1, 1, 0]


def test_too_few_texts_apart_from_the_test_text_are_told() -> None:
    with pytest.raises(
        InputError, match=r"^tasks.mine.train: .*\"Yes\".* test text 1 .* 5 .*; add texts, or"
    ):
        chosen("nearest_per_label", [0, 1, 1, 1, 1])
    with pytest.raises(InputError, match=r"too few training texts that differ from test text 1 "):
        chosen("nearest", [label for _, _, label in TRAIN])


def test_clusters_have_their_means_as_centers() -> None:
    # On the left, three texts in a row with the center (1, 0); on the right, (10, 2).
    places = np.array([[0, 0], [10, 0], [2, 0], [1, 0], [10, 5], [10, 1]], float)
    for seed in range(5):
        distances, own = cluster(places, 2, np.random.default_rng(seed))
        left = own[0]
        assert own.tolist() == [left, 1 - left, left, left, 1 - left, 1 - left]
        assert distances[:, left] == pytest.approx([1, 9, 1, 0, 106**0.5, 82**0.5], abs=1e-6)
        assert distances[[1, 4, 5], 1 - left] == pytest.approx([2, 3, 1], abs=1e-6)
        assert nearest_to_centers(distances, own) == [3, 5]
        assert farthest_from_centers(distances, own) == [1, 4]  # both on the right


def test_of_equal_texts_the_first_is_taken_and_clusters_have_their_own() -> None:
    distances, own = np.array([[1.0], [1.0], [1.0]]), np.zeros(3, int)
    assert nearest_to_centers(distances, own) == farthest_from_centers(distances, own) == [0]
    # The text nearest to the second center is of the first cluster, and represents neither.
    distances = np.array([[2.0, 1.0], [0.5, 3.0], [4.0, 1.5]])
    assert nearest_to_centers(distances, np.array([0, 0, 1])) == [1, 2]


@pytest.mark.parametrize(("choice", "seed"), [*((name, n) for name in CHOSEN for n in (0, 1))])
def test_every_label_s_clusters_are_represented_in_the_random_ones_order_of_labels(
    choice: str, seed: int
) -> None:
    samples = of_clusters(choice, seed)
    assert samples["demonstrations"].to_list() == [choice] * 2
    assert samples["demonstration_labels"].to_list() == [MIXED] * 2
    shown = samples["demonstration_texts"].to_list()
    assert shown[0] == shown[1], "the same before every test text"
    for label, texts in CHOSEN[choice].items():
        of_label = [text for text, of in zip(shown[0], MIXED, strict=True) if of == label]
        assert len(of_label) == 2
        assert set(of_label) == texts, "neither a test text nor a text twice"
    rows = samples["demonstration_rows"][0]
    assert [CLUSTERED[row][0] for row in rows] == shown[0]


@pytest.mark.parametrize("choice", CHOSEN)
def test_seeds_show_a_label_s_texts_in_different_orders(choice: str) -> None:
    orders = {tuple(of_clusters(choice, s)["demonstration_texts"][0]) for s in range(30)}
    assert len(orders) == 4, "two of each label"


def test_with_one_demonstration_of_each_label_its_texts_are_one_cluster() -> None:
    # The mean of all other texts with label 0 is at about 58°, that of label 1 at 258°.
    (shown, _) = of_clusters("representative", labels=[0, 1])["demonstration_texts"].to_list()
    assert shown == ["b90", "d290"]
    (shown, _) = of_clusters("outlying", labels=[1, 0])["demonstration_texts"].to_list()
    assert shown == ["d330", "b130"]


@pytest.mark.parametrize("choice", CHOSEN)
def test_too_few_different_texts_for_clusters_are_told(choice: str) -> None:
    train = [*CLUSTERED[:3], CLUSTERED[4], ("a0", 0, 0)]
    with pytest.raises(
        InputError, match=rf"^tasks.mine.train: .*\"No\".* 3 {choice} .*; add texts, or"
    ):
        of_clusters(choice, train=train, labels=[0, 0, 0])


@pytest.mark.parametrize(
    ("text", "present", "wanted", "written"),
    [
        ("as it  is", 1, 1, "as it  is"),
        ("a dog\x1fan animal", 2, 2, "a dog\x1fan animal"),
        ("a dog\x1fan animal", 2, 1, "a dog an animal"),
        ("one two three\nfour five", 1, 2, "one two three\x1ffour five"),
        ("a dog\x1fan animal", 2, 3, "a dog\x1fan\x1fanimal"),
        ("one two", 1, 2, "one\x1ftwo"),
        ("one", 1, 2, None),
    ],
)
def test_a_text_fills_the_fields_of_another_task(
    text: str, present: int, wanted: int, written: str | None
) -> None:
    assert as_fields(text, present, wanted) == written


def test_texts_that_the_task_has_too_and_those_too_short_for_its_fields_are_left_out() -> None:
    own, _ = corpus([("in common", 0, 0)], [("tested in\x1fcommon", 0, 0)])
    other = other_texts("in common", "of its own", "short", "tested in common")
    kept = texts_for(own, other, ONE_FIELD, ONE_FIELD, 2)
    assert kept["text"].to_list() == ["of its own", "short", "tested in common"]
    pairs = texts_for(own, other, PAIR, ONE_FIELD, 2)
    assert pairs["text"].to_list() == ["in\x1fcommon", "of its\x1fown"]
    assert pairs["row"].to_list() == [0, 1]
    with pytest.raises(
        InputError, match=r"^retrieval.choices: .* 2 training texts .* 3 .*; add texts to other, or"
    ):
        texts_for(own, other, PAIR, ONE_FIELD, 3)


def test_texts_of_another_task_stand_under_the_random_ones_labels() -> None:
    texts, embeddings = corpus()
    of_other = ["first", "query", "second", "third", "fourth"]  # "query" is a test text here
    other = texts_for(texts, other_texts(*of_other), ONE_FIELD, ONE_FIELD, 3)
    shown = []
    for seed in range(12):
        fixed = fixed_samples([1, 0, 1], seed=seed)
        samples = choose_demonstrations(texts, fixed, embeddings, ["other_task"], LABELS, other)
        assert samples["demonstration_labels"].to_list() == [[1, 0, 1]] * 2
        rows, found = (samples[f"demonstration_{part}"].to_list() for part in ("rows", "texts"))
        assert found[0] == found[1] == [of_other[row] for row in rows[0]]
        assert len(set(found[0])) == 3
        shown.append(tuple(found[0]))
    assert len(set(shown)) > 6, "seeds draw by themselves"
    assert {text for texts in shown for text in texts} == {"first", "second", "third", "fourth"}


def test_random_labels_are_those_of_the_random_texts_in_any_order() -> None:
    """Exchanged labels would say the opposite of two labels, and random ones say nothing."""
    texts, embeddings = corpus()
    orders = set()
    for seed in range(24):
        fixed = fixed_samples([0, 1, 0, 1], seed=seed)
        samples = choose_demonstrations(texts, fixed, embeddings, ["random_labels"], LABELS)
        same = pl.all().exclude("demonstrations", "demonstration_labels")
        assert samples.select(same).equals(fixed.select(same))
        assert samples["demonstration_labels"].n_unique() == 1  # one order for a seed
        orders.add(tuple(samples["demonstration_labels"][0]))
        assert sorted(samples["demonstration_labels"][0]) == [0, 0, 1, 1]
    assert len(orders) > 4


def test_choices_are_made_alike_whatever_else_is_chosen_and_for_part_of_the_test_texts() -> None:
    texts, embeddings = corpus(CLUSTERED, QUERIES)
    fixed = fixed_samples(MIXED, CLUSTERED, QUERIES)
    other = other_texts("one", "two", "three", "four", "five")
    choices = ["random_labels", "outlying", "nearest", "other_task", "representative"]
    together = choose_demonstrations(texts, fixed, embeddings, choices, LABELS, other)
    assert together["demonstrations"].to_list() == choices * 2
    for choice in choices:
        for example in (0, 1):
            part = fixed.filter(example=example)
            alone = choose_demonstrations(texts, part, embeddings, [choice], LABELS, other)
            assert alone.equals(together.filter(demonstrations=choice, example=example))
