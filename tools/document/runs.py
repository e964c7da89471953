"""Runs that pages are made of: finished ones, and what the documentation keeps of them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.present.page import cell
from anchorflow.store.checksums import read_json, sha256_of

_TABLE = re.compile(r"results/tables/(\w+)\.csv")
_FIGURE = re.compile(r"results/figures/(\w+)/[^/]+\.png")
DISPUTES = "disputes"  # the folder of a model's second run, in that of its first


@dataclass(frozen=True)
class FinishedRun:
    """The folder of a run, the versions of its software, and the SHA-256 of its files."""

    folder: Path
    software: Mapping[str, str]
    sums: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The run of a folder, by its manifest."""
        manifest = read_json(
            folder / "results" / "manifest.json", remedy="finish the run to have its results"
        )
        sums = {file: entry["sha256"] for file, entry in manifest["files"].items()}
        return cls(folder, manifest["software"], sums)

    def file(self, name: str) -> Path:
        """The path of a file, such as ``results/tables/claims.csv``, as the run wrote it."""
        path = self.folder / name
        if not path.is_file() or sha256_of(path) != self.sums.get(name):
            raise InputError(f"{path}: not what the run wrote; run again to rebuild it.")
        return path

    def tables(self) -> dict[str, Path]:
        """The CSV files of the tables, by name."""
        return self._named(_TABLE)

    def figures(self) -> dict[str, Path]:
        """The PNG files of the figures of a run of one model, by name."""
        return self._named(_FIGURE)

    def _named(self, pattern: re.Pattern[str]) -> dict[str, Path]:
        found = {name: pattern.fullmatch(name) for name in self.sums}
        return {match[1]: self.file(name) for name, match in found.items() if match}


@dataclass(frozen=True)
class KeptRun:
    """What the documentation keeps of a run: facts in ``run.json``, and tables in CSV files.

    ``disputes`` is a second run of the same model, of what the field disputes.
    """

    facts: Mapping[str, Any]
    tables: Mapping[str, pl.DataFrame]
    disputes: Self | None = None

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The run that a folder of the documentation keeps, with the second one in it."""
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        second = folder / DISPUTES
        return cls(
            facts,
            read_tables({file.stem: file for file in folder.glob("*.csv")}),
            cls.read(second) if (second / "run.json").is_file() else None,
        )

    def rows(self, name: str, **conditions: Any) -> pl.DataFrame:
        """The rows of a table in which these columns have these values."""
        return self.tables[name].filter(
            *(pl.col(column).eq_missing(value) for column, value in conditions.items())
        )


def read_tables(files: Mapping[str, Path]) -> dict[str, pl.DataFrame]:
    """Tables from their CSV files, by name."""
    return {name: pl.read_csv(file, infer_schema_length=None) for name, file in files.items()}


def with_cells(rows: pl.DataFrame) -> pl.DataFrame:
    """Estimates with their intervals in a further column ``cell``, such as "0.71 [0.69, 0.73]"."""
    cells = [cell(*values) for values in rows.select("mean", "low", "high").iter_rows()]
    return rows.with_columns(pl.Series("cell", cells, dtype=pl.String))
