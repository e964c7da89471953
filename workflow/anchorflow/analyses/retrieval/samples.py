"""Chosen demonstrations, to be compared with random ones ([K] §4.2).

``nearest``: the training texts most similar to the test text (Liu et al. 2022, KATE).
``nearest_per_label``: those of each label.

The others are the same for every test text of a seed and have the labels of the random
demonstrations, all but the last in the same order, so that only the texts differ:

``representative``: of each label, the texts nearest to the centers of k-means clusters of the
embeddings, one per cluster, with one cluster per demonstration of the label.
``outlying``: of each label, the texts farthest from the nearest of those centers.
``other_task``: texts of another task of the run, drawn at random, under this task's label words.
``random_labels``: the random demonstrations, with their labels in a random order (Min et al. 2022),
which says nothing of them; exchanged ones would say the opposite.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.prepare.samples import compared, compared_texts, distinct
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS

log = logging.getLogger(__name__)

RANDOM = "random"
FIXED = "fixed"  # the protocol of the prompts with random demonstrations
OTHER_TASK = "other_task"
_STARTS = 10  # random starts of k-means, since a single one may end in a poor optimum

Shown = dict[str, list[Any]]  # the columns of demonstrations that a choice replaces


def nearest(
    similarity: Array, labels: np.ndarray, counts: Mapping[int, int], per_label: bool
) -> list[int]:
    """Choose the training texts nearest to one test text, the most similar last.

    ``similarity``, [texts], is NaN for excluded texts; of equally similar texts, the first counts
    as the nearest. With ``per_label``, every label keeps its number of demonstrations, else only
    the total is kept. Too few texts yield fewer demonstrations.
    """
    order = np.argsort(-similarity, kind="stable")  # NaN last
    order = order[~np.isnan(similarity[order])]
    if per_label:
        places = [order[labels[order] == label][:count] for label, count in counts.items()]
        order = order[np.isin(order, np.concatenate(places))]
    chosen: list[int] = order[: sum(counts.values())][::-1].tolist()
    return chosen


def cluster(texts: Array, clusters: int, random: np.random.Generator) -> tuple[Array, np.ndarray]:
    """K-means clusters of some texts, by Euclidean distance.

    Of ten random starts (k-means++), the one with the smallest sum of squared distances is kept.
    The result does not depend on the number of threads. At least ``clusters`` of the vectors,
    [texts, dimensions], differ. The distances, [texts, clusters], from each text to the center of
    each cluster are rounded so that ties stay ties. Every cluster has at least one text in the
    second result, [texts].
    """
    means = KMeans(clusters, n_init=_STARTS, tol=0, random_state=int(random.integers(2**32)))
    # Threads add up in another order, which may break ties between clusters in another way.
    with threadpool_limits(1):
        cluster_of = means.fit_predict(texts)
        distances: Array = np.round(means.transform(texts), 6)
    return distances, cluster_of


def nearest_to_centers(distances: Array, cluster_of: np.ndarray) -> list[int]:
    """The text nearest to the center of each cluster, the first of equally near ones.

    The indices of texts are increasing.
    """
    chosen = []
    for number in range(distances.shape[1]):
        members = np.flatnonzero(cluster_of == number)
        chosen.append(int(members[distances[members, number].argmin()]))
    return sorted(chosen)


def farthest_from_centers(distances: Array, cluster_of: np.ndarray) -> list[int]:
    """The texts farthest from the nearest center, the same number as clusters.

    Parameters and result are those of :func:`nearest_to_centers`; of equally far texts, the first
    are taken.
    """
    order = np.argsort(-distances.min(1), kind="stable")
    return sorted(order[: distances.shape[1]].tolist())


_BY_CENTERS: Mapping[str, Callable[[Array, np.ndarray], list[int]]] = {
    "representative": nearest_to_centers,
    "outlying": farthest_from_centers,
}


def as_fields(text: str, present: int, wanted: int) -> str | None:
    """A text of one task in the fields of another.

    If the numbers of fields are equal, fields correspond in order. Otherwise the fields are joined
    by spaces, and the words are divided evenly and in order among the fields wanted; the first
    fields get one word more where the words do not divide evenly. None if the text has fewer words
    than there are fields.
    """
    if present == wanted:
        return text
    joined = text.replace(FIELD_SEPARATOR, " ")
    if wanted == 1:
        return joined
    words = joined.split()
    if len(words) < wanted:
        return None
    least, more = divmod(len(words), wanted)
    ends = [least * count + min(count, more) for count in range(wanted + 1)]
    parts = (words[start:end] for start, end in pairwise(ends))
    return FIELD_SEPARATOR.join(map(" ".join, parts))


def texts_for(
    texts: pl.DataFrame,
    other: pl.DataFrame,
    fields: Sequence[str],
    of_other: Sequence[str],
    demonstrations: int,
) -> pl.DataFrame:
    """The training texts of another task that may be demonstrations of this one.

    Texts that, written in this task's fields, equal one of its own texts are left out, since they
    are in distribution; so are texts with fewer words than fields. They keep the order of the other
    task's rows. A prompt needs at least ``demonstrations`` of them.
    """
    rows = [
        {**row, "text": as_fields(row["text"], len(of_other), len(fields))}
        for row in other.filter(pl.col("split") == "train").sort("row").iter_rows(named=True)
    ]
    written = pl.DataFrame(rows, schema=frame_schema(TEXTS)).drop_nulls("text")
    found = distinct(written, "train", apart_from=texts["text"])
    name, source = texts["task"][0], other["task"][0]
    log.info("Texts of another task are drawn from %d training texts of %s.", len(found), source)
    if len(found) < demonstrations:
        raise InputError(
            f"retrieval.choices: for other_task, demonstrations of {name} are texts of {source}, "
            f"which has {len(found)} training texts that {name} lacks and that have a word for "
            f"each of its fields, but a prompt needs {demonstrations} demonstrations; add texts to "
            f"{source}, or leave other_task out."
        )
    return found


def choose_demonstrations(
    texts: pl.DataFrame,
    fixed: pl.DataFrame,
    embeddings: pl.DataFrame,
    choices: Sequence[str],
    labels: Sequence[str],
    other: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """The test texts of one task and seed with demonstrations chosen for them.

    Training texts identical to the test text are excluded. ``representative`` and ``outlying`` ones
    precede all test texts of a seed, so texts identical to any test text and duplicates are
    excluded from them.

    ``choices`` are those in the docstring of this module, which the column ``demonstrations``
    holds; as many demonstrations are chosen as in ``fixed``. ``other``, from :func:`texts_for`, is
    for ``other_task``.
    """
    if fixed.is_empty():
        return fixed
    first = fixed.row(0, named=True)  # all test texts have its demonstrations
    of_seed: dict[str, Shown] = {}
    for choice in choices:
        if choice in _BY_CENTERS:
            of_seed[choice] = _by_centers(choice, first, texts, embeddings, labels)
        elif choice == OTHER_TASK:
            assert other is not None
            of_seed[choice] = _of_another_task(first, other)
        elif choice == "random_labels":
            random = generator(first["seed"], first["task"], "shuffled labels")
            shuffled = random.permutation(first["demonstration_labels"]).tolist()
            of_seed[choice] = {"demonstration_labels": shuffled}
    train = distinct(texts, "train")
    of_train, of_test = vectors(embeddings, "train")[train["row"]], vectors(embeddings, "test")
    forms = train.select(compared()).to_series()
    rows = []
    for sample in fixed.iter_rows(named=True):
        similarity = cosine(of_train, of_test[sample["example"]])
        similarity[(forms == compared_texts([sample["text"]])[0]).to_numpy()] = np.nan
        for choice in choices:
            per_label = choice == "nearest_per_label"
            demonstrations = of_seed.get(choice) or _nearest_to(
                sample, similarity, train, labels, per_label
            )
            rows.append({**sample, "demonstrations": choice, **demonstrations})
    return pl.DataFrame(rows, schema=frame_schema(SAMPLES))


def _nearest_to(
    sample: Mapping[str, Any],
    similarity: Array,
    train: pl.DataFrame,
    labels: Sequence[str],
    per_label: bool,
) -> Shown:
    """The training texts nearest to a test text."""
    train_labels = train["label"].to_numpy()
    wanted = Counter(sample["demonstration_labels"])
    places = nearest(similarity, train_labels, wanted, per_label)
    found = train_labels[places].tolist()
    _require(sample, Counter(found), labels, per_label)
    return {
        "demonstration_rows": train["row"].gather(places).to_list(),
        "demonstration_texts": train["text"].gather(places).to_list(),
        "demonstration_labels": found,
    }


def _require(
    sample: Mapping[str, Any], found: Counter[int], labels: Sequence[str], per_label: bool
) -> None:
    """Raise InputError if fewer demonstrations were found than the fixed prompts have."""
    wanted = Counter(sample["demonstration_labels"])
    if found.total() == wanted.total():
        return
    short = next(label for label, count in wanted.items() if found[label] < count)
    which = f' of the label "{labels[short].strip()}"' if per_label else ""
    raise InputError(
        f"tasks.{sample['task']}.train: there are too few training texts{which} that differ from "
        f"test text {sample['example']} for a prompt of {wanted.total()} demonstrations; add "
        "texts, or lower demonstrations_per_label."
    )


def _by_centers(
    choice: str,
    first: Mapping[str, Any],
    texts: pl.DataFrame,
    embeddings: pl.DataFrame,
    labels: Sequence[str],
) -> Shown:
    """The texts of each label nearest to the centers of its clusters, or farthest from them."""
    train = distinct(texts, "train", apart_from=texts.filter(pl.col("split") == "test")["text"])
    of_train = vectors(embeddings, "train")
    found: dict[int, list[int]] = {}
    for label, count in sorted(Counter(first["demonstration_labels"]).items()):
        rows = train.filter(pl.col("label") == label)["row"].to_numpy()
        of_label = of_train[rows]
        if len(np.unique(of_label, axis=0)) < count:
            raise InputError(
                f"tasks.{first['task']}.train: there are too few training texts of the label "
                f'"{labels[label].strip()}" that differ from each other and from all test texts '
                f"for {count} {choice} demonstrations; add texts, or lower "
                "demonstrations_per_label."
            )
        random = generator(first["seed"], first["task"], "clusters", label)
        chosen = _BY_CENTERS[choice](*cluster(of_label, count, random))
        found[label] = random.permutation(rows[chosen]).tolist()
    drawn = [found[label].pop() for label in first["demonstration_labels"]]
    text_of = dict(zip(train["row"], train["text"], strict=True))
    return {"demonstration_rows": drawn, "demonstration_texts": [text_of[row] for row in drawn]}


def _of_another_task(first: Mapping[str, Any], other: pl.DataFrame) -> Shown:
    """Texts of another task in place of the random ones, regardless of their labels there."""
    wanted = len(first["demonstration_rows"])
    random = generator(first["seed"], first["task"], "texts of another task")
    places = random.choice(len(other), wanted, replace=False).tolist()
    return {
        "demonstration_rows": other["row"].gather(places).to_list(),
        "demonstration_texts": other["text"].gather(places).to_list(),
    }


def vectors(embeddings: pl.DataFrame, split: str) -> Array:
    """Embeddings of one split, [texts, dimensions], by row."""
    rows = embeddings.filter(pl.col("split") == split).sort("row")["embedding"]
    found: Array = rows.explode().to_numpy().reshape(len(rows), -1).astype(np.float64)
    return found


def cosine(of_texts: Array, of_text: Array) -> Array:
    """Cosine of unit vectors, rounded to float32 precision so that ties stay ties."""
    found: Array = np.round(of_texts @ of_text, 6)
    return found
