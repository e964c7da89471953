"""Ridge probes against scikit-learn's classifier, and their control."""

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import RidgeClassifier

from anchorflow.analyses.kernel import STATES
from anchorflow.analyses.probes import PROBES
from anchorflow.analyses.probes.measure import measure_probes, probe
from anchorflow.schemas.frames import frame_schema
from constructed.kernel import states


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


def accuracy(probes: pl.DataFrame, offset: int, source: str, target: str) -> tuple[float, float]:
    rows = probes.filter(offset=offset, source=source, target=target)
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


def test_a_target_is_decoded_alone_as_beside_the_other() -> None:
    both = measure_probes(states(rounds=4), 0.01)
    for target in ("label", "next_token"):
        alone = measure_probes(states(rounds=4), 0.01, [target])
        assert alone.equals(both.filter(target=target))


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
