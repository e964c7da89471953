"""Nearest demonstrations by hand, their predictions against full prompts, and paired gains."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from conftest import Checkout

from anchorflow.errors import InputError
from anchorflow.neighbors import MEASURES, neighbor_measures, summarize_neighbors
from anchorflow.neighbors_figure import draw_neighbors
from anchorflow.retrieval import (
    choose_demonstrations,
    describe_demonstrations,
    measure_retrieval,
    nearest,
)
from anchorflow.tables import (
    EMBEDDINGS,
    NEIGHBORS,
    PREDICTIONS,
    PROMPTS,
    RETRIEVAL,
    SAMPLES,
    TEXTS,
    frame_schema,
)
from anchorflow.tabulate import tabulate_neighbors
from tiny_models import plain_attentions, shared_prompts, single, tiny_model, whole_batch

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


def cell_prompts(queries: list[int]) -> pl.DataFrame:
    """Prompts of two choices, whose demonstrations differ, in PROMPTS' columns."""
    first = shared_prompts(queries).with_columns(demonstrations=pl.lit("nearest"))
    ids = [[(token * 5) % 97 for token in row] for row in first["token_ids"].to_list()]
    other = first.with_columns(demonstrations=pl.lit("nearest_per_label"), token_ids=pl.Series(ids))
    return pl.concat([first, other])


def random_predictions(examples: list[int]) -> pl.DataFrame:
    rows = [
        {
            "model": "tiny",
            "task": "news",
            "seed": 0,
            "example": example,
            "label": example % 3,
            "prediction": 1,
            "probabilities": [0.1, 0.7, 0.2],
            "top_tokens": [],
            "top_texts": [],
            "top_probabilities": [],
        }
        for example in examples
    ]
    return pl.DataFrame(rows, schema=frame_schema(PREDICTIONS))


def described(prompts: pl.DataFrame, examples: list[int]) -> pl.DataFrame:
    named = [("random", example) for example in examples]
    named += prompts.select("demonstrations", "example").rows()
    return pl.DataFrame(
        [(choice, example, place / 10, 0.5) for place, (choice, example) in enumerate(named)],
        schema=["choice", "example", "similarity", "same_label"],
        orient="row",
    ).cast({"example": pl.Int32})


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


ANSWERS = {"random": [0, 1, 0, 1], "nearest": [0, 0, 1, 0]}
TRUTH = [0, 0, 1, 1]  # two right with random ones, three with nearest


def rows_of(task: str, seeds: int, left_out: tuple[str, int] | None = None) -> pl.DataFrame:
    rows = [
        {
            "model": "m",
            "task": task,
            "seed": seed,
            "example": example,
            "choice": choice,
            "label": TRUTH[example],
            "prediction": answer,
            "probabilities": [1.0 - answer, float(answer)],
            "similarity": 0.2 if choice == "random" else example / 4,
            "same_label": 0.5,
        }
        for seed in range(seeds)
        for choice, answers in ANSWERS.items()
        for example, answer in enumerate(answers)
        if (choice, example) != left_out
    ]
    return pl.DataFrame(rows, schema=frame_schema(RETRIEVAL))


def prompts_of(task: str, seeds: int, left_out: tuple[str, int] | None = None) -> pl.DataFrame:
    rows = [
        {
            "model": "m",
            "task": task,
            "seed": seed,
            "demonstrations": "fixed" if choice == "random" else choice,
            "example": example,
            "skipped": "too long" if left_out in [(choice, example), (choice, -1)] else None,
        }
        for seed in range(seeds)
        for choice in ANSWERS
        for example in range(4)
    ]
    return pl.DataFrame(rows, schema={name: frame_schema(PROMPTS)[name] for name in rows[0]})


def values(summary: pl.DataFrame, task: str, choice: str, column: str = "mean") -> dict[str, Any]:
    rows = summary.filter(pl.col("task") == task, pl.col("choice") == choice)
    return dict(rows.select("measure", column).iter_rows())


def test_gains_are_differences_from_random_demonstrations_on_the_same_examples() -> None:
    summary = summarize_neighbors(rows_of("news", 2), prompts_of("news", 2), 200, 0.9)
    assert summary.schema == frame_schema(NEIGHBORS)
    assert values(summary, "news", "random") == pytest.approx(
        {"accuracy": 0.5, "similarity": 0.2, "same_label": 0.5}
    )
    assert values(summary, "average", "nearest") == pytest.approx(
        {"accuracy": 0.75, "similarity": 1.5 / 4, "same_label": 0.5, "accuracy_gain": 0.25}
    )
    assert set(summary["examples"]) == {8}
    assert set(summary["skipped"]) == {0}


def test_the_gain_s_replicates_resample_pairs() -> None:
    statistic, size = neighbor_measures(rows_of("news", 1), "nearest")
    assert size == 4
    weights = np.random.default_rng(0).multinomial(4, [0.25] * 4, 500).astype(float)
    # Right minus right: 0, 1, 1, -1 of the four examples.
    gain = statistic(weights)[:, MEASURES.index("accuracy_gain")]
    np.testing.assert_allclose(gain, weights @ [0, 1, 1, -1] / 4)


@pytest.mark.parametrize(
    ("left_out", "examples", "skipped", "nearest_accuracy", "random_accuracy"),
    [
        (("nearest", 3), {"random": 8, "nearest": 6}, {"random": 0, "nearest": 2}, 1, 0.5),
        (("random", 3), {"random": 6, "nearest": 8}, {"random": 2, "nearest": 0}, 0.75, 1 / 3),
    ],
)
def test_an_example_skipped_with_one_choice_is_left_out_of_the_gain_and_counted(
    left_out: tuple[str, int],
    examples: dict[str, int],
    skipped: dict[str, int],
    nearest_accuracy: float,
    random_accuracy: float,
) -> None:
    summary = summarize_neighbors(
        rows_of("news", 2, left_out), prompts_of("news", 2, left_out), 100, 0.9
    )
    # Without example 3, one of three is right with random ones and all with nearest ones.
    assert values(summary, "news", "nearest")["accuracy_gain"] == pytest.approx(2 / 3)
    assert values(summary, "news", "nearest")["accuracy"] == pytest.approx(nearest_accuracy)
    assert values(summary, "news", "random")["accuracy"] == pytest.approx(random_accuracy)
    for choice in ("random", "nearest"):
        assert values(summary, "news", choice, "examples")["accuracy"] == examples[choice]
        assert values(summary, "news", choice, "skipped")["accuracy"] == skipped[choice]
    assert values(summary, "news", "nearest", "examples")["accuracy_gain"] == 6
    assert values(summary, "news", "nearest", "skipped")["accuracy_gain"] == 2
    table = tabulate_neighbors(summary).filter(task="news", choice="nearest")
    assert table["accuracy_gain"].item().endswith(" (2 skipped)")
    assert ("skipped" in table["accuracy"].item()) == (left_out[0] == "nearest")


def test_a_task_skipped_whole_with_one_choice_leaves_it_without_average(tmp_path: Path) -> None:
    long = rows_of("long", 1).filter(pl.col("choice") == "random")
    predictions = pl.concat([rows_of("news", 1), long])
    prompts = pl.concat([prompts_of("news", 1), prompts_of("long", 1, ("nearest", -1))])
    summary = summarize_neighbors(predictions, prompts, 100, 0.9)
    for task in ("long", "average"):
        assert set(values(summary, task, "nearest").values()) == {None}
    assert values(summary, "average", "random")["accuracy"] == 0.5
    assert values(summary, "long", "nearest", "skipped")["accuracy_gain"] == 4
    table = tabulate_neighbors(summary)
    pairs = [(task, choice) for task in ("news", "long", "average") for choice in ANSWERS]
    assert table.select("task", "choice").rows() == pairs
    assert table.filter(task="long", choice="nearest")["accuracy"].item() == "– (4 skipped)"
    assert table.filter(task="news", choice="random")["accuracy_gain"].item() == "–"
    style = {"panel_width": 2, "font_size": 8, "resolution": 50, "colors": ["#000000"] * 3}
    draw_neighbors(summary, style, 0.9, {"png": tmp_path / "figure.png"})
    assert (tmp_path / "figure.png").stat().st_size > 1000
    single = summarize_neighbors(rows_of("news", 1), prompts_of("news", 1), 100, 0.9)
    draw_neighbors(single, style, 0.9, {"png": tmp_path / "single.png"})
    assert (tmp_path / "single.png").stat().st_size > 1000


def test_a_run_without_any_prediction_is_refused() -> None:
    with pytest.raises(InputError, match="every prompt exceeds the model's context"):
        summarize_neighbors(rows_of("news", 1).clear(), prompts_of("news", 1), 100, 0.9)


def test_artifacts_hold_every_choice_beside_random_demonstrations(finished_run: Checkout) -> None:
    folder = finished_run.folder / "results"
    cell = folder / "retrieval/tiny/news/1"
    predictions = pl.read_parquet(cell / "predictions.parquet")
    choices = ["random", "nearest", "nearest_per_label"]
    assert predictions["choice"].to_list() == choices * 6
    similarity = predictions.group_by("choice").agg(pl.col("similarity").mean())
    mean = dict(similarity.iter_rows())
    assert mean["nearest"] >= mean["nearest_per_label"] > mean["random"]
    samples = pl.read_parquet(cell / "samples.parquet").filter(demonstrations="nearest_per_label")
    assert {tuple(sorted(shown)) for shown in samples["demonstration_labels"]} == {(0, 1, 2, 3)}
    random = predictions.filter(choice="random").select("example", "prediction", "probabilities")
    fixed = pl.read_parquet(folder / "predictions/tiny/news/1.parquet")
    assert random.equals(fixed.select(random.columns))
    summary = pl.read_parquet(folder / "neighbors/tiny.parquet")
    assert set(summary["task"]) == {"reviews", "news", "average"}
    assert set(summary["choice"]) == set(choices)
