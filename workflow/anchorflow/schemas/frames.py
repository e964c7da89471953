"""Declared tables as schemas of Arrow and of polars."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from anchorflow.config.table import Table


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The types of a table's columns, with their meanings and units, the name and the keys."""
    fields = [
        pa.field(
            column.name,
            _type(column.kind),
            metadata={"description": column.words, "unit": column.unit},
        )
        for column in table.columns
    ]
    named = {"table": table.name, "rows": table.rows, "keys": " ".join(table.keys)}
    return pa.schema(fields, metadata=named)


def _type(kind: str) -> pa.DataType:
    of_list = re.fullmatch("list<(.*)>", kind)
    return pa.list_(_type(of_list[1])) if of_list else pa.type_for_alias(kind)


@cache
def frame_schema(table: Table) -> pl.Schema:
    """The polars types of a table's columns, for building a data frame row by row."""
    empty = pl.from_arrow(arrow_schema(table).empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def places_of(shape: Sequence[int], **axes: Any) -> dict[str, Any]:
    """Where each entry of an array lies along its axes, row by row.

    By the values that an axis is given, or by numbers where it is given None.
    """
    places = np.indices(shape).reshape(len(shape), -1)
    return {
        axis: at if values is None else np.array(values)[at]
        for (axis, values), at in zip(axes.items(), places, strict=True)
    }


def layers_of(frame: pl.DataFrame) -> list[int]:
    """The layers that a table has, increasing; in a hybrid model, some numbers are missing."""
    return frame["layer"].unique().sort().to_list()


def keyed(frame: pl.DataFrame, keys: Mapping[str, Any], table: Table) -> pl.DataFrame:
    """Add the key columns to a data frame and give it the table's column order and types."""
    named = frame.with_columns(pl.lit(value).alias(key) for key, value in keys.items())
    return named.select(table.names).cast(frame_schema(table))
