"""Ridge probes against scikit-learn's classifier, their control, and their summary."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import RidgeClassifier
from test_heads import STYLE, prompts

from anchorflow.decoding import summarize_decoding
from anchorflow.decoding_figure import draw_decoding
from anchorflow.probes import measure_probes, probe
from anchorflow.summaries import AVERAGE
from anchorflow.tables import DECODING, PROBES, STATES, frame_schema
from anchorflow.tabulate import tabulate_decoding


@pytest.mark.parametrize("classes", [2, 4])
def test_probes_are_ridge_classifiers_fitted_to_the_other_folds(classes: int) -> None:
    random = np.random.default_rng(classes)
    features = random.normal(size=(24, 10))
    targets = random.integers(0, classes, (24, 3))
    other = random.integers(0, 3, (24, 2))
    folds = np.arange(24) // 4 % 5
    correct = probe(features, [targets, other], folds, 0.3)
    for column in range(3):
        for fold in range(5):
            held_out = folds == fold
            plain = RidgeClassifier(alpha=0.3).fit(features[~held_out], targets[~held_out, column])
            hits = plain.predict(features[held_out]) == targets[held_out, column]
            assert correct[0][held_out, column].tolist() == hits.tolist()
    alone = probe(features, [other], folds, 0.3)
    assert (correct[1] == alone[0]).all()


def states(seed: int = 0, task: str = "news", rounds: int = 6) -> pl.DataFrame:
    """Values that name the label at offset 0 and nothing at -1; keys that name the next token."""
    random = np.random.default_rng(seed)
    rows = []
    for demonstration in range(2 * rounds):
        label, next_token = demonstration % 2, demonstration // 2 % 3
        for offset in (-1, 0):
            told = random.normal(0, 0.1, 6)
            named = random.normal(0, 0.1, 6)
            named[next_token] += 1
            if offset == 0:
                told[label] += 1
            rows.append(
                {
                    "model": "tiny",
                    "task": task,
                    "seed": seed,
                    "layer": 0,
                    "head": 0,
                    "demonstration": demonstration,
                    "offset": offset,
                    "label": label,
                    "next_token": 100 + next_token,
                    "key": named.tolist(),
                    "value": told.tolist(),
                }
            )
    return pl.DataFrame(rows, schema=frame_schema(STATES))


def accuracy(probes: pl.DataFrame, offset: int, source: str, target: str) -> tuple[float, float]:
    rows = probes.filter(
        pl.col("offset") == offset, pl.col("source") == source, pl.col("target") == target
    )
    return float(rows["correct"].mean()), float(rows["shuffled"].mean())


def test_a_probe_finds_what_is_there_and_nothing_in_shuffled_targets() -> None:
    probes = measure_probes(states(rounds=20), 0.01)
    assert probes.schema == frame_schema(PROBES)
    there, chance = accuracy(probes, 0, "value", "label")
    assert there == 1.0
    assert chance == pytest.approx(0.5, abs=0.2)
    there, chance = accuracy(probes, -1, "key", "next_token")
    assert there == 1.0
    assert chance == pytest.approx(1 / 3, abs=0.2)
    absent, _ = accuracy(probes, -1, "value", "label")
    assert absent == pytest.approx(0.5, abs=0.3)


def test_one_round_has_nothing_to_hold_out() -> None:
    assert measure_probes(states(rounds=1), 0.01).is_empty()
    assert measure_probes(states().clear(), 0.01).is_empty()


@pytest.mark.parametrize(("classes", "rounds"), [(2, 2), (2, 4), (6, 2), (6, 5)])
def test_noise_gains_nothing_over_the_control(classes: int, rounds: int) -> None:
    random = np.random.default_rng(0)
    gains = []
    for seed in range(25):
        count = classes * rounds
        noise = pl.DataFrame(
            {
                "demonstration": np.arange(count),
                "label": np.concatenate([random.permutation(classes) for _ in range(rounds)]),
                "next_token": random.integers(0, 3, count),
                "key": random.normal(size=(count, 16)),
                "value": random.normal(size=(count, 16)),
            }
        ).select(pl.lit("t").alias("task"), pl.lit(seed).alias("seed"), pl.all())
        at = {"model": "m", "layer": 0, "head": 0, "offset": 0}
        states = noise.with_columns(**{name: pl.lit(value) for name, value in at.items()})
        probes = measure_probes(states.cast(frame_schema(STATES), strict=False), 0.01)
        gains.append(probes["correct"].mean() - probes["shuffled"].mean())
    assert abs(np.mean(gains)) < 4 * np.std(gains) / 5
    assert abs(np.mean(gains)) < 0.05


def summary() -> pl.DataFrame:
    probes = [measure_probes(states(seed, t), 0.01) for t in ("news", "reviews") for seed in (0, 1)]
    return summarize_decoding(pl.concat(probes), prompts(), 100, 0.9)


def test_summary_averages_and_gains_over_chance() -> None:
    table = summary()
    assert table.schema == frame_schema(DECODING)
    assert len(table) == 3 * 2 * 2 * 2 * 3  # tasks, offsets, sources, targets, measures
    rows = table.filter(
        pl.col("task") == AVERAGE,
        pl.col("offset") == 0,
        pl.col("source") == "value",
        pl.col("target") == "label",
    )
    values = dict(rows.select("measure", "mean").iter_rows())
    assert values["accuracy"] == 1.0
    assert values["gain"] == pytest.approx(1.0 - values["shuffled"])
    assert rows["decoded"].to_list() == [48] * 3


def test_demonstrations_missing_at_an_offset_do_not_count_there() -> None:
    last_gone = states().filter((pl.col("offset") == -1) | (pl.col("demonstration") < 11))
    table = summarize_decoding(measure_probes(last_gone, 0.01), prompts(("news",)), 100, 0.9)
    rows = table.filter(
        pl.col("task") == "news",
        pl.col("offset") == 0,
        pl.col("source") == "value",
        pl.col("target") == "label",
        pl.col("measure") == "accuracy",
    )
    assert rows["mean"].to_list() == [1.0]
    assert rows["decoded"].to_list() == [11]


def test_figure_and_table_show_every_offset(tmp_path: Path) -> None:
    draw_decoding(summary(), STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert (tmp_path / "a.png").stat().st_size > 5000
    rows = tabulate_decoding(summary())
    assert rows["offset"].unique().sort().to_list() == [-1, 0]
    assert len(rows) == 2 * 2 * 2


def test_nothing_to_decode_is_shown_as_such(tmp_path: Path) -> None:
    empty = summarize_decoding(pl.DataFrame(schema=frame_schema(PROBES)), prompts(), 100, 0.9)
    assert empty.is_empty()
    draw_decoding(empty, STYLE, 0.9, {"png": tmp_path / "a.png"})
    assert tabulate_decoding(empty).is_empty()
