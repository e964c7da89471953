"""What jobs that prepare or measure have in common: their inputs and outputs."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from anchorflow.config.table import Table
from anchorflow.store.parquet import read_settings, read_table, write_frame


class Cell:
    """The files and params of a job; ``spec`` is the rule's param of this name."""

    def __init__(self, snakemake: Any) -> None:
        self.params, self.input, self.output = snakemake.params, snakemake.input, snakemake.output
        self.config, self.wildcards = snakemake.config, snakemake.wildcards
        self.threads: int = snakemake.threads
        self.spec = snakemake.params.get("spec")

    def read(self, name: str, table: Table) -> pl.DataFrame:
        """The input of that name; see :func:`read_table`."""
        return read_table(self.input[name], table)

    def settings(self, name: str) -> dict[str, Any]:
        """The settings with which the input of that name was made; see :func:`read_settings`."""
        return read_settings(self.input[name])

    def write(
        self, table: Table, frame: pl.DataFrame, settings: Mapping[str, Any], name: str | int = 0
    ) -> None:
        """Write the output of that name; by default, the first or only one."""
        write_frame(self.output[name], table, frame, settings)
