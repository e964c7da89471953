"""What jobs that run a model have in common: the model, its task, and the texts of a shard."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any

import polars as pl
from transformers import PreTrainedModel

from anchorflow.config.shards import examples_of
from anchorflow.config.table import Table
from anchorflow.model.batches import among, runnable
from anchorflow.model.layer_kinds import by_place, runs_again
from anchorflow.model.opening import open_for_job, read_card
from anchorflow.model.size import CostOf, Prompts, query_tokens
from anchorflow.random_draws import drawn_texts
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.store import cell


class Cell(cell.Cell):
    """One model, task, and seed, or a shard of its test texts, with a measuring job's files.

    ``spec``, ``task`` and ``scoring`` are the rule's params of these names; ``scoring`` is empty if
    the rule has none. ``name`` is the task's name, with other label words after a +. ``shard`` is
    None if the job measures all test texts.
    """

    def __init__(self, snakemake: Any) -> None:
        super().__init__(snakemake)
        self.task = self.params.get("task")
        self.scoring: Mapping[str, Any] = self.params.get("scoring", {})
        self.name: str | None = snakemake.wildcards.get("task")
        self.shard: str | None = snakemake.wildcards.get("examples")
        self._compute = snakemake.config["compute"]
        self.batch_tokens: int = self._compute["batch_tokens"]

    @cached_property
    def card(self) -> dict[str, Any]:
        """The model's description, ``model.json``."""
        return read_card(self.input.model)

    def examples(self, rows: pl.DataFrame) -> list[int] | None:
        """The test texts that the job measures; None for all.

        They are those of the shard among the first ``examples`` of ``spec``; see
        :func:`examples_of` and :func:`drawn_texts`.
        """
        of_shard = examples_of(self.shard, rows)
        number = self.spec.get("examples") if isinstance(self.spec, Mapping) else None
        if number is None:
            return of_shard
        drawn = drawn_texts(rows.filter(demonstrations="fixed"), number)["example"]
        return [text for text in drawn.to_list() if of_shard is None or text in of_shard]

    def model(
        self,
        prompts: pl.DataFrame,
        cost: CostOf,
        spec: Mapping[str, Any] = MappingProxyType({}),
        **instead: Any,
    ) -> PreTrainedModel:
        """Open the model for these prompts; see :func:`open_for_job`.

        ``instead`` replaces entries of ``compute`` in the configuration.
        """
        compute = {**self._compute, **instead}
        planned = prompts, cost, spec, self.scoring
        model = open_for_job(self.input.model, compute, self.threads, *planned)
        if runs_again(model.config) and not cost(Prompts.of(prompts), spec, self.depth).whole:
            # Batches are of queries, but their demonstrations run again with them.
            self.batch_tokens = query_tokens(prompts, self._compute["batch_tokens"])
        return model

    @property
    def depth(self) -> int:
        """The number of the model's layers that attend."""
        return len(self._attending)

    @property
    def _attending(self) -> Sequence[int]:
        """Their places in the model."""
        found: Sequence[int] = self.card.get("attention_layers", range(self.card["layers"]))
        return found

    def write(
        self, table: Table, frame: pl.DataFrame, settings: Mapping[str, Any], name: str | int = 0
    ) -> None:
        """Write the output of that name, with layers numbered by their places in the model."""
        if "layer" in frame.columns:
            frame = by_place(frame, self._attending, self.card["layers"])
        super().write(table, frame, settings, name)

    def described(self, **measured: Any) -> dict[str, Any]:
        """The settings that a table's values depend on: ``measured``, scoring, and the model."""
        return {**measured, **self.scoring, "model": self.card}

    def measure(self, table: Table, cost: CostOf, run: Callable[..., pl.DataFrame]) -> None:
        """Measure the prompts with fixed demonstrations, and write the analysis's only table.

        ``run`` takes the model and all prompts and, by keyword, ``batch_tokens``, the ``examples``
        to measure and, if the rule has it, ``scoring``.
        """
        prompts = self.read("prompts", PROMPTS)
        examples = self.examples(prompts)
        model = self.model(among(runnable(prompts, "fixed"), examples), cost, self.spec)
        scoring = {"scoring": self.scoring} if self.scoring else {}
        rows = run(model, prompts, batch_tokens=self.batch_tokens, examples=examples, **scoring)
        self.write(table, rows, self.described(**{table.name: self.spec}))
