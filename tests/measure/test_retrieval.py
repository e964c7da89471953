"""Nearest demonstrations by hand, and their predictions against full prompts."""

import logging

import numpy as np
import polars as pl
import pytest
import torch

from anchorflow.config.errors import InputError
from anchorflow.measure.retrieval import (
    choose_demonstrations,
    describe_demonstrations,
    measure_retrieval,
    nearest,
)
from anchorflow.schemas.embeddings import EMBEDDINGS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.retrieval import RETRIEVAL
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from constructed.retrieval import cell_prompts, described, random_predictions
from tiny_models import plain_attentions, single, tiny_model, whole_batch

# Training texts on the unit circle, by their angle in degrees, with their labels.
TRAIN = [("east", 0, 0), ("steep", 60, 1), ("flat", 10, 0), ("middle", 45, 0), ("north", 90, 1)]
TRAIN += [("west", 180, 1), ("again", 10, 1)]
TEST = [("query", 0, 0), ("north", 90, 1)]
LABELS = [" No", " Yes"]


def corpus() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Texts and their embeddings."""
    texts, embeddings = [], []
    for split, listed in (("train", TRAIN), ("test", TEST)):
        for row, (text, degrees, label) in enumerate(listed):
            place = {"task": "mine", "split": split, "row": row}
            angle = np.deg2rad(degrees)
            texts.append({**place, "text": text, "label": label})
            embeddings.append({**place, "embedding": [np.cos(angle), np.sin(angle)]})
    return (
        pl.DataFrame(texts, schema=frame_schema(TEXTS)),
        pl.DataFrame(embeddings, schema=frame_schema(EMBEDDINGS)),
    )


def fixed_samples(labels: list[int]) -> pl.DataFrame:
    """Both test texts, with the first training texts of these labels as fixed demonstrations."""
    left = list(range(len(TRAIN)))
    rows = []
    for label in labels:
        rows.append(next(row for row in left if TRAIN[row][2] == label))
        left.remove(rows[-1])
    samples = [
        {
            "task": "mine",
            "seed": 3,
            "demonstrations": "fixed",
            "example": example,
            "text": text,
            "label": label,
            "demonstration_rows": rows,
            "demonstration_texts": [TRAIN[row][0] for row in rows],
            "demonstration_labels": labels,
        }
        for example, (text, _, label) in enumerate(TEST)
    ]
    return pl.DataFrame(samples, schema=frame_schema(SAMPLES))


def chosen(choice: str, labels: list[int]) -> pl.DataFrame:
    texts, embeddings = corpus()
    return choose_demonstrations(texts, fixed_samples(labels), embeddings, [choice], LABELS)


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


def test_texts_identical_to_the_test_text_are_left_out() -> None:
    north = chosen("nearest", [0, 1]).row(1, named=True)
    assert north["demonstration_texts"] == ["middle", "steep"]
    per_label = chosen("nearest_per_label", [0, 1]).row(1, named=True)
    assert per_label["demonstration_texts"] == ["middle", "steep"]


def test_every_label_has_as_many_nearest_texts_as_fixed_ones() -> None:
    samples = chosen("nearest_per_label", [1, 0, 1, 1])
    query = samples.row(0, named=True)
    assert query["demonstration_texts"] == ["north", "steep", "again", "east"]
    assert query["demonstration_labels"] == [1, 1, 1, 0]


def test_too_few_texts_apart_from_the_test_text_are_told() -> None:
    with pytest.raises(InputError) as error:
        chosen("nearest_per_label", [0, 1, 1, 1, 1])
    assert str(error.value) == (
        'tasks.mine.train: there are too few training texts of the label "Yes" that differ from '
        "test text 1 for a prompt of 5 demonstrations; add texts, or lower "
        "demonstrations_per_label."
    )
    with pytest.raises(InputError, match=r"too few training texts that differ from test text 1 "):
        chosen("nearest", [label for _, _, label in TRAIN])


def test_demonstrations_are_described_by_mean_cosine_and_share_of_the_true_label() -> None:
    _, embeddings = corpus()
    samples = pl.concat([fixed_samples([0, 1]), chosen("nearest", [0, 1])])
    shown = describe_demonstrations(samples, embeddings)
    expected = [
        ("random", 0, (1 + 1 / 2) / 2, 1 / 2),  # east and steep from 0°
        ("random", 1, (0 + np.cos(np.pi / 6)) / 2, 1 / 2),  # from 90°
        ("nearest", 0, (1 + np.cos(np.pi / 18)) / 2, 1.0),  # east and flat
        ("nearest", 1, (np.cos(np.pi / 4) + np.cos(np.pi / 6)) / 2, 1 / 2),  # middle and steep
    ]
    for row, (choice, example, similarity, same) in zip(shown.rows(), expected, strict=True):
        assert row[:2] == (choice, example)
        assert row[2:] == pytest.approx((similarity, same), abs=1e-6)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3"])
def test_predictions_equal_those_of_plain_full_prompts(family: str) -> None:
    prompts = cell_prompts([5, 17, 9])
    random = random_predictions([0, 1, 2])
    shown = described(prompts, [0, 1, 2])
    measured = measure_retrieval(tiny_model(family), prompts, random, shown, 60)
    assert measured.schema == frame_schema(RETRIEVAL)
    assert measured["choice"].to_list() == ["random", "nearest", "nearest_per_label"] * 3
    assert measured["example"].to_list() == [0] * 3 + [1] * 3 + [2] * 3
    assert measured["similarity"].to_list() == [0, 0.3, 0.6, 0.1, 0.4, 0.7, 0.2, 0.5, 0.8]
    kept = measured.filter(pl.col("choice") == "random").select("label", "prediction")
    assert kept.equals(random.select("label", "prediction"))
    eager = tiny_model(family, eager=True)
    for choice in ("nearest", "nearest_per_label"):
        full = whole_batch(prompts.filter(pl.col("demonstrations") == choice))
        rows = measured.filter(pl.col("choice") == choice)
        for place, example in enumerate(full.examples):
            logits, _ = plain_attentions(eager, single(full, place))
            plain = logits[full.label_tokens].softmax(-1)
            row = rows.row(example, named=True)
            torch.testing.assert_close(torch.tensor(row["probabilities"]), plain, rtol=0, atol=1e-4)
            assert (row["label"], row["prediction"]) == (example % 3, int(plain.argmax()))


def test_prompts_that_exceed_the_context_are_left_out_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long = (pl.col("demonstrations") == "nearest") & (pl.col("example") == 1)
    prompts = cell_prompts([5, 17, 9]).with_columns(
        skipped=pl.when(long).then(pl.lit("too long")).otherwise(None)
    )
    shown = described(prompts, [0, 2])
    with caplog.at_level(logging.WARNING):
        measured = measure_retrieval(
            tiny_model("llama"), prompts, random_predictions([0, 2]), shown, 60
        )
    run = measured.group_by("choice").agg("example").sort("choice")
    assert run["example"].to_list() == [[0, 2], [0, 1, 2], [0, 2]]
    assert "1 of 6 prompts with nearest demonstrations are skipped" in caplog.text
    none = prompts.with_columns(skipped=pl.lit("too long"))
    left = measure_retrieval(tiny_model("llama"), none, random_predictions([]), shown, 60)
    assert left.is_empty()
