"""Ridge probes of the keys and values around the label words ([K] §5.4).

If in-context learning is kernel regression, keys encode what texts are compared by, and values
encode their labels. Each probe is fitted to some demonstrations and evaluated on the others. The
same probe with targets shuffled among demonstrations (labels within each round, since every round
contains each label once) gives chance accuracy.
"""

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.linear_model import Ridge

from anchorflow.analyses.kernel import STATES
from anchorflow.analyses.probes import PROBES
from anchorflow.arrays import Array
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.store.cell import Cell

SOURCES = ("key", "value")
TARGETS = ("next_token", "label")
FOLDS = 5
SHUFFLES = 5  # permutations of the targets, whose mean accuracy is chance


def probe(
    features: Array, targets: Sequence[NDArray[np.int64]], folds: NDArray[np.int64], penalty: float
) -> list[NDArray[np.bool_]]:
    """Whether a ridge classifier fitted to the other folds predicts each target.

    As scikit-learn's ``RidgeClassifier``: least squares on ±1 for each class, with an intercept;
    the class with the largest value is predicted. All targets are fitted jointly, since they share
    the features. ``features`` are [N, D]. ``targets``, each [N, K], hold classes; all K columns
    contain the same ones. ``folds``, [N], name at least two folds. Whether each target is predicted
    is [N, K].

    Source: Han et al. 2025, §5.4.
    """
    classes = [np.unique(target) for target in targets]
    signs = [
        np.where(target[:, :, None] == known, 1.0, -1.0)  # [N, K, C]
        for target, known in zip(targets, classes, strict=True)
    ]
    flat = np.concatenate([sign.reshape(len(features), -1) for sign in signs], 1)
    values = np.empty(flat.shape)
    for fold in np.unique(folds):
        held_out = folds == fold
        ridge = Ridge(alpha=penalty).fit(features[~held_out], flat[~held_out])
        values[held_out] = ridge.predict(features[held_out])
    ends = np.cumsum([sign[0].size for sign in signs])
    return [
        known[part.reshape(sign.shape).argmax(-1)] == target
        for target, known, sign, part in zip(
            targets, classes, signs, np.split(values, ends[:-1], 1), strict=True
        )
    ]


def measure_probes(
    states: pl.DataFrame, penalty: float, chosen: Collection[str] = TARGETS
) -> pl.DataFrame:
    """Probe the keys and values of every layer, head and offset of one model, task, and seed.

    Demonstrations of one round, which contains every label once, are held out together. With fewer
    than two rounds, no probe is fitted, and the result has no rows.
    """
    empty = pl.DataFrame(schema=frame_schema(PROBES))
    if states.is_empty():
        return empty
    keys = states.select("model", "task", "seed").row(0, named=True)
    names = [name for name in TARGETS if name in chosen]
    classes = states["label"].n_unique()
    parts = [empty]
    for (layer, head, offset), rows in states.group_by(
        "layer", "head", "offset", maintain_order=True
    ):
        rounds = rows["demonstration"].to_numpy() // classes
        if len(np.unique(rounds)) < 2:
            continue
        random = generator(keys["seed"], keys["task"], "probes")
        orders = {  # both, so that neither depends on whether the other is decoded
            "next_token": [random.permutation(len(rows)) for _ in range(SHUFFLES)],
            "label": [_within(rounds, random) for _ in range(SHUFFLES)],
        }
        targets = [
            np.stack([known, *(known[order] for order in orders[name])], 1)
            for name in names
            for known in [rows[name].to_numpy().astype(np.int64)]
        ]
        at = {"layer": layer, "head": head, "offset": offset}
        for source in SOURCES:
            features = np.array(rows[source].to_list(), dtype=np.float64)
            found = probe(features, targets, rounds % FOLDS, penalty)
            for target, correct in zip(names, found, strict=True):
                rows_of = rows.select(
                    "demonstration",
                    pl.Series("correct", correct[:, 0]),
                    pl.Series("shuffled", correct[:, 1:].mean(1)),
                )
                probed = {**keys, **at, "source": source, "target": target}
                parts.append(keyed(rows_of, probed, PROBES))
    return pl.concat(parts)


def _within(rounds: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation within rounds, [N].

    Every round contains each label once. If labels were shuffled across rounds, those frequent
    among the held-out demonstrations would be rare among the fitted ones, which would push accuracy
    below chance.
    """
    order: NDArray[np.int64] = np.lexsort((random.random(len(rounds)), rounds))
    places = np.argsort(rounds, kind="stable")
    shuffled = np.empty_like(order)
    shuffled[places] = order
    return shuffled


def measure(cell: Cell) -> None:
    spec = cell.spec
    probes = measure_probes(cell.read("states", STATES), spec["penalty"], spec["targets"])
    cell.write(PROBES, probes, {"probes": spec, **cell.settings("states")})
