"""Texts that are the same: as composed characters (NFC), without white space around their fields.

No query may be among its demonstrations, and a text that repeats is no independent one.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.config.look_alikes import INVISIBLE
from anchorflow.config.text_fields import FIELD_SEPARATOR

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
