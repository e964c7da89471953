"""Samples: test texts, and the demonstrations of each of them; which texts are the same.

Texts are the same as composed characters (NFC), without white space around their fields. No query
may be among its demonstrations, and a text that repeats is no independent one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.config.look_alikes import INVISIBLE
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.random_draws import generator
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import SPLITS, TEXTS
from anchorflow.store.cell import Cell

PROTOCOLS = ("per_example", "fixed")
_AROUND_FIELDS = rf"^\s+|\s+$|\s*({FIELD_SEPARATOR})\s*"


def compared(column: str = "text") -> pl.Expr:
    """The form in which the texts of a column are compared."""
    return pl.col(column).str.normalize("NFC").str.replace_all(_AROUND_FIELDS, "$1")


def compared_texts(texts: Iterable[str]) -> pl.Series:
    """The form in which these texts are compared."""
    return pl.DataFrame({"text": texts}, schema={"text": pl.String}).select(compared()).to_series()


def distinct(texts: pl.DataFrame, split: str, apart_from: Iterable[str] = ()) -> pl.DataFrame:
    """The distinct texts of a split, the first of each, without those that equal others.

    Texts that are left out, ``apart_from``, are those of queries, for example.
    """
    of_split = texts.filter(pl.col("split") == split).filter(compared().is_first_distinct())
    return of_split.filter(~compared().is_in(compared_texts(apart_from).implode()))


def with_invisible(texts: pl.Series) -> pl.Series:
    """Which texts have invisible characters, or white space around a field."""
    around = pl.col("text").str.replace_all(_AROUND_FIELDS, "$1") != pl.col("text")
    seen = pl.col("text").str.replace_all(FIELD_SEPARATOR, " ")
    frame = pl.DataFrame({"text": texts}, schema={"text": pl.String})
    return frame.select(around | seen.str.contains(INVISIBLE.pattern)).to_series()


class Repeated(NamedTuple):
    """Which training and test texts are others', as masks of their rows."""

    overlap: pl.Series  # training texts that are test texts
    copies: Mapping[str, pl.Series]  # by split: texts that equal an earlier one
    two_labels: Mapping[str, pl.Series]  # by split: texts that also have another label, in either


def repeated_texts(splits: Mapping[str, pl.DataFrame]) -> Repeated:
    """Find the texts of the splits ``train`` and ``test`` that are not their own alone."""
    both = pl.concat(
        frame.select(pl.lit(split).alias("split"), compared().alias("form"), "label")
        for split, frame in splits.items()
    ).with_columns(two_labels=pl.col("label").n_unique().over("form") > 1)
    of = {split: both.filter(split=split) for split in splits}
    return Repeated(
        of["train"]["form"].is_in(of["test"]["form"].implode()),
        {split: ~frame["form"].is_first_distinct() for split, frame in of.items()},
        {split: frame["two_labels"] for split, frame in of.items()},
    )


def without_repeated(
    name: str, splits: Mapping[str, pl.DataFrame], task: Mapping[str, Any]
) -> dict[str, pl.DataFrame]:
    """The splits without repeated texts, if the task's key ``repeated`` says so.

    ``drop`` leaves out training texts that are test texts, texts with two labels, and copies;
    ``refuse`` allows none of these.
    """
    wanted = task.get("repeated", "keep")
    if wanted == "keep":
        return dict(splits)
    found = repeated_texts(splits)
    kept = {}
    for split, frame in splits.items():
        bad = found.copies[split] | found.two_labels[split]
        bad = bad | found.overlap if split == "train" else bad
        if wanted == "refuse" and bad.any():
            row = bad.arg_true()[0]
            raise InputError(
                f"tasks.{name}.{split}: {bad.sum()} texts repeat others, the first one in row "
                f"{row + 1} ({frame['text'][row]!r}); remove them, or leave that to "
                '"repeated: drop".'
            )
        kept[split] = frame.filter(~bad)
        if kept[split].is_empty():
            raise InputError(
                f'tasks.{name}.{split}: "repeated: drop" leaves none of {len(frame)} texts, as all '
                "of them are test texts, or have two labels; add others."
            )
    return kept


def draw_samples(
    texts: pl.DataFrame,
    seed: int,
    labels: list[str],
    test_examples: int,
    demonstrations_per_label: int,
) -> pl.DataFrame:
    """Draw test texts and demonstrations of one task under both protocols.

    ``per_example`` draws fresh demonstrations for each test text ([A] §2.1, saliency); ``fixed``
    draws once per seed (all other experiments). Every label has the same number of demonstrations,
    in random order. The test texts are the same for both, drawn without replacement. There is one
    row per protocol and test text.
    """
    task = texts["task"][0]
    texts = texts.with_columns(compared().alias("form"))
    train, test = (texts.filter(split=split) for split in SPLITS)
    once = distinct(train, "train")
    rows = {row["row"]: row for row in train.iter_rows(named=True)}

    def draw(query: str | None, *purpose: str | int) -> list[int]:
        random = generator(seed, task, *purpose)
        others = once if query is None else once.filter(pl.col("form") != query)
        _check_counts(others, labels, demonstrations_per_label, query)
        drawn: list[int] = []
        # From all texts, as if none repeated; anew from distinct ones if the query or a copy is
        # among them, so that copies elsewhere in the data change no draw.
        for pool in (train, others):
            by_label = [pool.filter(label=label)["row"].to_numpy() for label in range(len(labels))]
            chosen = [random.choice(of, demonstrations_per_label, replace=False) for of in by_label]
            drawn = random.permutation(np.concatenate(chosen)).tolist()
            forms = {rows[row]["form"] for row in drawn}
            if len(forms) == len(drawn) and query not in forms:
                break
        return drawn

    fixed = draw(None, "fixed demonstrations")
    shown = [rows[row]["form"] for row in fixed]
    order = generator(seed, task, "test texts").permutation(len(test))
    # The first of equal texts, so that a row is one text, whatever the seed.
    allowed = distinct(test, "test", apart_from=shown)["row"].implode()
    queries = test[order].filter(pl.col("row").is_in(allowed))[:test_examples].sort("row")
    if queries.is_empty():
        raise InputError(
            f"tasks.{task}.test: with seed {seed}, every test text is a demonstration; add others."
        )
    draws = {
        "per_example": [
            draw(form, "demonstrations", example)
            for form, example in queries.select("form", "row").iter_rows()
        ],
        "fixed": [fixed] * len(queries),
    }
    return pl.concat(
        queries.select(
            "task",
            pl.lit(seed, pl.Int64).alias("seed"),
            pl.lit(protocol).alias("demonstrations"),
            pl.col("row").alias("example"),
            "text",
            "label",
            pl.Series("demonstration_rows", draws[protocol], dtype=pl.List(pl.Int32)),
            *(
                pl.Series(
                    f"demonstration_{key}s",
                    [[rows[r][key] for r in of] for of in draws[protocol]],
                    dtype=pl.List(kind),
                )
                for key, kind in (("text", pl.String), ("label", pl.Int32))
            ),
        )
        for protocol in PROTOCOLS
    )


def _check_counts(train: pl.DataFrame, labels: list[str], wanted: int, query: str | None) -> None:
    """Raise InputError if a label has fewer distinct training texts than demonstrations."""
    counts = dict(train["label"].value_counts().iter_rows())
    for label, word in enumerate(labels):
        if counts.get(label, 0) < wanted:
            apart = "" if query is None else " apart from a test text"
            raise InputError(
                f'tasks.{train["task"][0]}.train: the label "{word.strip()}" has '
                f"{counts.get(label, 0)} training texts{apart}, but demonstrations_per_label is "
                f"{wanted}; add texts or lower it."
            )


def exchanged(labels: Sequence[int], random: np.random.Generator) -> list[int]:
    """For each place, another one that has another label, each place once.

    A random order would leave two labels as they are in every other draw. Labels are sorted, in a
    random order, and rotated by a random number of places that leaves no label in its block. No
    label may have more than half of the places.
    """
    count, most = len(labels), max(map(list(labels).count, labels))
    if 2 * most > count:
        raise ValueError("a label has more than half of the demonstrations")
    place_of = random.permutation(max(labels) + 1)  # of each label
    order = sorted(random.permutation(count).tolist(), key=lambda place: place_of[labels[place]])
    shift = int(random.integers(most, count - most + 1))
    found = dict(zip(order, [*order[shift:], *order[:shift]], strict=True))
    return [found[place] for place in range(count)]


def with_shuffled_labels(samples: pl.DataFrame) -> pl.DataFrame:
    """The samples with labels exchanged between each prompt's demonstrations, as :func:`exchanged`.

    Fixed demonstrations have one exchange per seed, others one per test text.
    """

    def shuffle(row: dict[str, Any]) -> list[int]:
        of_prompt = () if row["demonstrations"] == "fixed" else (row["example"],)
        random = generator(row["seed"], row["task"], "shuffled labels", *of_prompt)
        labels = row["demonstration_labels"]
        return [labels[place] for place in exchanged(labels, random)]

    labels = pl.Series(
        "demonstration_labels",
        [shuffle(row) for row in samples.iter_rows(named=True)],
        dtype=pl.List(pl.Int32),
    )
    return samples.with_columns(labels)


def prepare(job: Cell) -> None:
    """Draw test texts and demonstrations of one task and seed."""
    samples = draw_samples(job.read("texts", TEXTS), int(job.wildcards.seed), **job.spec)
    job.write(SAMPLES, samples, job.spec)
