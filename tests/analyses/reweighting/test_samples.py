"""Training texts, further demonstrations, and the baselines' own inputs."""

import polars as pl
import pytest

from anchorflow.analyses.reweighting.samples import draw_auxiliary
from anchorflow.config.errors import InputError
from anchorflow.prepare.samples import draw_samples
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS

LABELS = [" no", " yes"]


def corpus(per_label: int = 8, same: bool = False) -> pl.DataFrame:
    """Texts of two labels; with ``same``, the test split repeats training texts."""
    rows = []
    for split in ("train", "test"):
        for row in range(2 * per_label):
            text = f"text {row}" if same else f"{split} {row}"
            rows.append(
                {"task": "mine", "split": split, "row": row, "text": text, "label": row % 2}
            )
    return pl.DataFrame(rows, schema=frame_schema(TEXTS))


def samples_of(texts: pl.DataFrame, seed: int = 0, test_examples: int = 4) -> pl.DataFrame:
    return draw_samples(texts, seed, LABELS, test_examples, 1)


def kind(auxiliary: pl.DataFrame, name: str) -> pl.DataFrame:
    return auxiliary.filter(pl.col("demonstrations") == name)


def test_training_texts_are_as_many_of_each_label_and_apart_from_all_that_is_shown() -> None:
    texts = corpus()
    for seed in range(20):
        samples = samples_of(texts, seed)
        training = kind(draw_auxiliary(texts, samples, LABELS, 3, None, {}), "training")
        fixed = samples.filter(pl.col("demonstrations") == "fixed")
        assert sorted(training["label"]) == [0, 0, 0, 1, 1, 1]
        assert training["text"].is_unique().all()
        shown = fixed["demonstration_texts"][0].to_list()
        assert not set(training["text"]) & {*shown, *fixed["text"]}
        assert all(row.to_list() == shown for row in training["demonstration_texts"])


def test_texts_that_are_not_asked_have_no_prompt_with_more_demonstrations() -> None:
    texts = corpus()
    samples = samples_of(texts)
    every, some = (
        draw_auxiliary(texts, samples, LABELS, 3, None, {}, asked) for asked in (None, [1, 2])
    )
    assert kind(some, "training").equals(kind(every, "training"))
    assert kind(some, "many").equals(kind(every, "many").filter(pl.col("example").is_in([1, 2])))


def test_training_texts_that_are_test_texts_too_are_left_out() -> None:
    texts = corpus(same=True)
    samples = samples_of(texts)
    for per_label in (2, 3, 4):
        training = kind(draw_auxiliary(texts, samples, LABELS, per_label, None, {}), "training")
        assert not set(training["text"]) & set(samples["text"])


def test_draws_differ_between_seeds_and_repeat_for_one() -> None:
    texts = corpus(20)
    drawn = [
        draw_auxiliary(texts, samples_of(texts, seed), LABELS, 4, None, {}) for seed in (0, 0, 1, 2)
    ]
    shown = [tuple(kind(each, "training")["example"]) for each in drawn]
    assert shown[0] == shown[1]
    assert len(set(shown)) == 3


@pytest.mark.parametrize(("wanted", "each"), [(None, 4), (3, 3), (2, 2)])
def test_many_demonstrations_are_the_fixed_ones_and_training_texts(
    wanted: int | None, each: int
) -> None:
    texts = corpus()
    samples = samples_of(texts)
    auxiliary = draw_auxiliary(texts, samples, LABELS, 3, wanted, {})
    many, training = kind(auxiliary, "many"), kind(auxiliary, "training")
    fixed = samples.filter(pl.col("demonstrations") == "fixed")
    assert many["example"].to_list() == fixed["example"].to_list()
    assert many["label"].to_list() == fixed["label"].to_list()
    shown = many["demonstration_texts"][0].to_list()
    assert sorted(many["demonstration_labels"][0]) == [0] * each + [1] * each
    assert set(fixed["demonstration_texts"][0]) <= set(shown)
    assert set(shown) <= {*fixed["demonstration_texts"][0], *training["text"]}
    label_of = dict(texts.filter(split="train").select("text", "label").iter_rows())
    assert [label_of[text] for text in shown] == many["demonstration_labels"][0].to_list()


def test_inputs_of_baselines_have_no_label_and_the_fixed_demonstrations() -> None:
    texts = corpus()
    samples = samples_of(texts)
    auxiliary = draw_auxiliary(
        texts, samples, LABELS, 3, None, {"one": ["N/A", ""], "other": ["x"]}
    )
    assert auxiliary.schema == frame_schema(SAMPLES)
    one, other = kind(auxiliary, "one"), kind(auxiliary, "other")
    assert one.select("example", "text", "label").rows() == [(0, "N/A", -1), (1, "", -1)]
    assert other.select("example", "text", "label").rows() == [(0, "x", -1)]
    shown = samples.filter(demonstrations="fixed")["demonstration_texts"][0].to_list()
    assert [row.to_list() for row in one["demonstration_texts"]] == [shown, shown]


def test_too_few_training_texts_are_told_with_the_label() -> None:
    texts = corpus(4)
    with pytest.raises(
        InputError,
        match=r'tasks.mine: the label "no" has 3 training texts .*examples_per_label is 4; lower',
    ):
        draw_auxiliary(texts, samples_of(texts), LABELS, 4, None, {})
