"""Samples: the same draws whenever the same thing is drawn, whatever else is drawn."""

import numpy as np
import polars as pl
import pytest

from anchorflow.config.errors import InputError
from anchorflow.prepare.samples import PROTOCOLS, draw_samples, exchanged, with_shuffled_labels
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES

LABELS = [" Negative", " Neutral", " Positive"]


def texts(task: str = "reviews", train: int = 30, test: int = 20) -> pl.DataFrame:
    """Texts of three classes in turn, each naming its task, split and row."""
    rows = [
        (task, split, row, f"{task} {split} {row}", row % 3)
        for split, count in (("train", train), ("test", test))
        for row in range(count)
    ]
    return pl.DataFrame(rows, schema=["task", "split", "row", "text", "label"], orient="row").cast(
        {"row": pl.Int32, "label": pl.Int32}
    )


def draw(
    task: str = "reviews", seed: int = 0, test_examples: int = 8, per_label: int = 2
) -> pl.DataFrame:
    return draw_samples(texts(task), seed, LABELS, test_examples, per_label)


def of(samples: pl.DataFrame, protocol: str) -> pl.DataFrame:
    return samples.filter(pl.col("demonstrations") == protocol)


def test_samples_are_of_their_table_and_both_protocols_have_the_same_test_texts() -> None:
    samples = draw()
    assert samples.schema == frame_schema(SAMPLES)
    keys = ["task", "seed", "example", "text", "label"]
    assert of(samples, "fixed").select(keys).equals(of(samples, "per_example").select(keys))
    assert len(samples) == 2 * 8
    everything = of(draw(test_examples=1000), "fixed")  # a test split with fewer is used whole
    assert everything["example"].to_list() == list(range(20))


def test_a_draw_depends_on_task_and_seed_alone_and_differs_with_both() -> None:
    first = draw()
    for other in (draw(seed=1), draw("news")):
        assert first["example"].to_list() != other["example"].to_list()
        rows = [of(s, "fixed")["demonstration_rows"][0].to_list() for s in (first, other)]
        assert rows[0] != rows[1]
    generator(0, "reviews", "something else").random(100)
    assert draw().equals(first)


def test_more_test_texts_leave_the_demonstrations_as_they_are() -> None:
    few, many = draw(test_examples=5), draw(test_examples=15)
    assert set(few["example"]) < set(many["example"])
    shown = {row["example"]: row for row in of(many, "per_example").iter_rows(named=True)}
    for row in of(few, "per_example").iter_rows(named=True):
        assert shown[row["example"]] == row
    first = [of(s, "fixed")["demonstration_rows"][0].to_list() for s in (few, many)]
    assert first[0] == first[1]


@pytest.mark.parametrize(("protocol", "draws"), [("per_example", 8), ("fixed", 1)])
def test_demonstrations_are_drawn_for_each_example_or_once(protocol: str, draws: int) -> None:
    drawn = [tuple(rows) for rows in of(draw(), protocol)["demonstration_rows"]]
    assert (len({*drawn}), len(drawn)) == (draws, 8)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_label_has_as_many_demonstrations_in_an_order_that_is_drawn(protocol: str) -> None:
    drawn = of(draw(per_label=4), protocol)["demonstration_labels"].to_list()
    assert all(sorted(labels) == [0] * 4 + [1] * 4 + [2] * 4 for labels in drawn)
    assert drawn[0] != sorted(drawn[0])
    assert (len({tuple(labels) for labels in drawn}) > 1) == (protocol == "per_example")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_text_is_drawn_twice(protocol: str) -> None:
    samples = of(draw(per_label=10), protocol)
    assert samples["example"].n_unique() == len(samples)
    for rows in samples["demonstration_rows"].to_list():
        assert sorted(rows) == list(range(30))


def test_texts_and_labels_belong_to_the_drawn_rows() -> None:
    for row in draw().iter_rows(named=True):
        assert row["text"] == f"reviews test {row['example']}"
        assert row["label"] == row["example"] % 3
        assert row["demonstration_texts"] == [
            f"reviews train {r}" for r in row["demonstration_rows"]
        ]
        assert row["demonstration_labels"] == [r % 3 for r in row["demonstration_rows"]]


@pytest.mark.parametrize(
    ("labels", "wanted", "sentence"),
    [
        (LABELS, 3, r"^tasks.reviews.train: .*\"Neutral\" has 2 .* is 3; add texts or"),
        ([*LABELS, " Mixed"], 1, 'the label "Mixed" has 0 training texts'),
    ],
)
def test_a_label_with_too_few_training_texts_is_told_by_its_word(
    labels: list[str], wanted: int, sentence: str
) -> None:
    few = texts().filter((pl.col("split") == "test") | (pl.col("label") != 1) | (pl.col("row") < 6))
    with pytest.raises(InputError, match=sentence):
        draw_samples(few, 0, labels, 8, wanted)


def test_shuffling_labels_leaves_all_else_and_the_labels_of_every_prompt() -> None:
    drawn = draw()
    shuffled = with_shuffled_labels(drawn)
    assert shuffled.schema == drawn.schema
    assert shuffled.drop("demonstration_labels").equals(drawn.drop("demonstration_labels"))
    own, other = (frame["demonstration_labels"] for frame in (drawn, shuffled))
    assert own.list.sort().equals(other.list.sort())
    assert not own.equals(other)


def test_labels_are_shuffled_once_for_fixed_demonstrations_and_anew_for_others() -> None:
    assert of(with_shuffled_labels(draw()), "fixed")["demonstration_labels"].n_unique() == 1
    same_labels = pl.lit([0, 0, 1, 1, 2, 2], dtype=pl.List(pl.Int32))
    labels = with_shuffled_labels(draw().with_columns(demonstration_labels=same_labels))
    assert of(labels, "per_example")["demonstration_labels"].n_unique() > 2


def test_a_shuffling_depends_on_seed_and_task_alone() -> None:
    drawn = draw(seed=3)
    first = with_shuffled_labels(drawn)
    assert with_shuffled_labels(drawn).equals(first)
    some = drawn.filter(pl.col("example").is_in(drawn["example"][:3].to_list()))
    kept = first.filter(pl.col("example").is_in(drawn["example"][:3].to_list()))
    assert with_shuffled_labels(some).equals(kept)


@pytest.mark.parametrize("labels", [[0, 1], [0, 1, 2], [0, 0, 1, 1], [2, 0, 1, 1, 0, 2]])
def test_every_demonstration_gets_another_label_and_all_others_are_as_likely(
    labels: list[int],
) -> None:
    """Of two labels, a random order would be the original one in every other seed."""
    random = np.random.default_rng(0)
    counts = np.zeros((len(labels), max(labels) + 1))
    for _ in range(600):
        found = [labels[place] for place in exchanged(labels, random)]
        assert sorted(found) == sorted(labels)
        counts[range(len(labels)), found] += 1
    own = counts[range(len(labels)), labels]
    assert not own.any()
    others = 600 / max(labels)
    counts[range(len(labels)), labels] = others
    assert counts == pytest.approx(np.full(counts.shape, others), abs=60)  # 5 σ or more
    with pytest.raises(ValueError, match="more than half"):
        exchanged([0, 0, 1], random)
