r"""Ridge probes fitted jointly for all targets and shuffles, compared with one at a time.

Both ways run in this process on the same random keys. The plain way fits scikit-learn's
``RidgeClassifier`` for each fold, target, and shuffle; ours fits all columns of a fold jointly.

    python benchmarks/probes.py
"""

import argparse
from functools import partial

import numpy as np
import torch
from models import seconds
from sklearn.linear_model import RidgeClassifier

from anchorflow.analyses.probes.measure import SHUFFLES, probe

CLASSES = 4


def one_by_one(
    features: np.ndarray, targets: list[np.ndarray], folds: np.ndarray, penalty: float
) -> list[np.ndarray]:
    """The same as ``probe``, with one classifier per fold and column."""
    answers = [np.zeros(target.shape, bool) for target in targets]
    for target, correct in zip(targets, answers, strict=True):
        for column in range(target.shape[1]):
            for fold in np.unique(folds):
                held_out = folds == fold
                ridge = RidgeClassifier(alpha=penalty)
                ridge.fit(features[~held_out], target[~held_out, column])
                predicted = ridge.predict(features[held_out])
                correct[held_out, column] = predicted == target[held_out, column]
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=1.0, help="per measurement")
    arguments = parser.parse_args()
    print("demonstrations | times as fast | same answers")
    random, cpu = np.random.default_rng(0), torch.device("cpu")
    for rounds in arguments.rounds:
        count = CLASSES * rounds
        features = random.normal(size=(count, arguments.dimension))
        targets = [random.integers(0, CLASSES, (count, 1 + SHUFFLES)) for _ in range(2)]
        folds = np.arange(count) // CLASSES % 5
        ways = [partial(way, features, targets, folds, 0.01) for way in (probe, one_by_one)]
        ours, plain = (seconds(way, cpu, arguments.seconds) for way in ways)
        same = np.mean([(a == b).mean() for a, b in zip(ways[0](), ways[1](), strict=True)])
        print(f"{count:14d} | {plain / ours:5.1f} | {same:.4f}", flush=True)


if __name__ == "__main__":
    main()
