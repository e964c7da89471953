"""Rows of tables, in files that a test may damage, and how close they are to others."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from anchorflow.analyses.flow import FLOW
from anchorflow.schemas.frames import frame_schema
from anchorflow.store.all_tables import TABLES
from anchorflow.store.parquet import write_frame


def assert_same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Floats within 1e-5 of a column's largest, everything else equal, rows in the same order."""
    assert found.schema == expected.schema
    for name, kind in expected.schema.items():
        inner = kind.inner if isinstance(kind, pl.List) else kind
        if inner not in (pl.Float32, pl.Float64):
            assert found[name].to_list() == expected[name].to_list(), name
            continue
        ours, theirs = (
            frame[name].explode().cast(pl.Float64).fill_null(np.nan).to_numpy()
            for frame in (found, expected)
        )
        largest = np.nanmax(np.abs(theirs), initial=0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * largest, err_msg=name)


def write(folder: Path, table: str, shards: Sequence[pl.DataFrame]) -> list[Path]:
    """Files of these rows, as jobs leave them."""
    paths = [folder / f"{place}.parquet" for place in range(len(shards))]
    for path, rows in zip(paths, shards, strict=True):
        write_frame(path, TABLES[table], rows, {"spec": 1})
    return paths


SALIENCIES = pl.DataFrame(
    {
        "model": "m",
        "task": "t",
        "seed": 0,
        "example": [e for e in range(20) for _ in range(3)],
        "layer": [0, 1, 2] * 20,
        **{
            name: [1 / (n + order) for n in range(60)]
            for order, name in enumerate(FLOW.names[5:], 1)
        },
    },
    schema=frame_schema(FLOW),
)


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
