"""A finished run's files, each checked against the manifest before it is read."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from anchorflow.config.errors import InputError
from anchorflow.store.checksums import read_json, sha256_of

_TABLE = re.compile(r"results/tables/(\w+)\.csv")
_FIGURE = re.compile(r"results/figures/(\w+)/[^/]+\.png")


@dataclass(frozen=True)
class FinishedRun:
    """The folder of a run, the versions of its software, and the SHA-256 of its files."""

    folder: Path
    software: Mapping[str, str]
    sums: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The run of a folder; an :class:`InputError` if it has no manifest."""
        manifest = read_json(
            folder / "results" / "manifest.json", remedy="finish the run to have its results"
        )
        sums = {file: entry["sha256"] for file, entry in manifest["files"].items()}
        return cls(folder, manifest["software"], sums)

    def file(self, name: str) -> Path:
        """The path of a file, such as ``results/tables/claims.csv``.

        Raises
        ------
        InputError
            If it is not what the run wrote.
        """
        path = self.folder / name
        if not path.is_file() or sha256_of(path) != self.sums.get(name):
            raise InputError(f"{path}: not what the run wrote; run again to rebuild it.")
        return path

    def tables(self) -> dict[str, Path]:
        """The CSV files of the tables, by name."""
        return {
            found[1]: self.file(name) for name in self.sums if (found := _TABLE.fullmatch(name))
        }

    def figures(self) -> dict[str, Path]:
        """The PNG files of the figures of a run of one model, by name."""
        return {
            found[1]: self.file(name) for name in self.sums if (found := _FIGURE.fullmatch(name))
        }
