"""Data frames with the columns and types of a table."""

from collections.abc import Mapping
from typing import Any

import polars as pl
import pyarrow as pa


def frame_schema(schema: pa.Schema) -> pl.Schema:
    """The polars types of a table's columns, for building a data frame row by row."""
    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def keyed(frame: pl.DataFrame, keys: Mapping[str, Any], schema: pa.Schema) -> pl.DataFrame:
    """Add the key columns to a data frame and give it the table's column order and types."""
    named = frame.with_columns(pl.lit(value).alias(key) for key, value in keys.items())
    return named.select(schema.names).cast(frame_schema(schema))
