"""What jobs that run a model have in common: what they read, the model, and what they write."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import polars as pl
import pyarrow as pa
from transformers import PreTrainedModel

from anchorflow.config.shards import examples_of
from anchorflow.model.language_model import open_for_job, read_card
from anchorflow.model.size import CostOf
from anchorflow.store.job import job
from anchorflow.store.parquet import read_table, write_frame


class Cell:
    """One model, task and seed, or a shard of its test texts, as a measuring rule gives it.

    ``spec``, ``task`` and ``scoring`` are the rule's params of these names; without scoring, empty.
    ``shard`` is None where a job measures all test texts. ``card`` describes the model.
    """

    def __init__(self, snakemake: Any) -> None:
        self._given = snakemake
        params = snakemake.params
        self.spec, self.task = params.get("spec"), params.get("task")
        self.scoring: Mapping[str, Any] = params.get("scoring", {})
        self.shard: str | None = snakemake.wildcards.get("examples")
        self.card = read_card(snakemake.input.model)
        self._compute = snakemake.config["compute"]
        self.batch_tokens: int = self._compute["batch_tokens"]

    def read(self, name: str, schema: pa.Schema) -> pl.DataFrame:
        """The input of that name; see :func:`read_table`."""
        return read_table(self._given.input[name], schema)

    def examples(self, rows: pl.DataFrame) -> list[int] | None:
        """The test texts of the shard; see :func:`examples_of`."""
        return examples_of(self.shard, rows)

    def model(
        self,
        prompts: pl.DataFrame,
        cost: CostOf,
        spec: Mapping[str, Any] = MappingProxyType({}),
        **instead: Any,
    ) -> PreTrainedModel:
        """The model, for the prompts that it will be run on; see :func:`open_for_job`.

        ``instead`` replaces entries of ``compute`` in the configuration.
        """
        given = self._given
        compute = {**self._compute, **instead}
        planned = prompts, cost, spec, self.scoring
        return open_for_job(given.input.model, compute, given.threads, *planned)

    def described(self, **measured: Any) -> dict[str, Any]:
        """The settings that a table's values depend on: the given ones, scoring, and the model."""
        return {**measured, **self.scoring, "model": self.card}

    def write(
        self,
        schema: pa.Schema,
        frame: pl.DataFrame,
        settings: Mapping[str, Any],
        name: str | int = 0,
    ) -> None:
        """Write the output of that name, or the only one."""
        write_frame(self._given.output[name], schema, frame, settings)


@contextmanager
def measuring(snakemake: Any) -> Iterator[Cell]:
    """What a script measures, within a job; see :func:`job`.

    Parameters
    ----------
    snakemake
        What Snakemake gives a script.
    """
    with job(snakemake):
        yield Cell(snakemake)
