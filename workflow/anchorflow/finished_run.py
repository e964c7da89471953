"""The results of a run, in Python."""

import contextlib
import re
from collections.abc import Collection, Mapping
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import yaml

from anchorflow.config.cell_names import is_untrained
from anchorflow.config.configuration import complete_configuration, twins_of
from anchorflow.config.errors import InputError
from anchorflow.config.places import WORKFLOW
from anchorflow.config.stages import STAGES, seeds_of, table_at
from anchorflow.measurement import plot_summary
from anchorflow.store.all_tables import TABLES
from anchorflow.store.checksums import read_json
from anchorflow.store.manifest import MANIFEST
from anchorflow.store.parquet import read_tables


class Run:
    """The results of a finished run, or of one that has got as far.

    Of a finished run, files are read that its manifest lists: those of models, tasks and seeds that
    have since left the configuration remain in the folder.

    Parameters
    ----------
    results : path
        The run's folder ``results``.
    configuration : path, optional
        The run's configuration file, which ``figure`` and ``examples`` need; by default,
        ``config.yaml`` or ``config/config.yaml`` beside the folder.

    Raises
    ------
    InputError
        If there is no such folder. All methods raise it where the run lacks what they read.
    """

    def __init__(
        self, results: str | Path = "results", configuration: str | Path | None = None
    ) -> None:
        self.results = Path(results)
        if not self.results.is_dir():
            raise InputError(f"{self.results}: no such folder; run the workflow first.")
        self._configuration = configuration

    def summary(self, analysis: str) -> pl.DataFrame:
        """Estimates of an analysis for all models, with intervals."""
        return self._read(f"summaries/{analysis}", "*.parquet")

    def claims(self, task: str = "average") -> pl.DataFrame:
        """The verdict on every claim, with its effect and what this is compared with."""
        return self.summary("claims").filter(task=task)

    def table(self, analysis: str, file: str = "") -> pl.DataFrame:
        """What an analysis measured, for all models, tasks and seeds, without untrained networks.

        Cells with other label words or shuffled labels have tasks such as ``reviews+symbols``.

        Parameters
        ----------
        file : str
            Which of the analysis's tables, if it has several, such as ``predictions``.
        """
        patterns = (
            {name: path for name, _, path in STAGES[analysis].files()} if analysis in STAGES else {}
        )
        if patterns and file not in patterns:
            known = ", ".join(filter(None, patterns)) or "one, without a name"
            raise InputError(f"{analysis} has no table {file!r}; its tables are {known}.")
        if not patterns:
            raise InputError(
                f"{analysis} has no tables; choose one of "
                f"{', '.join(name for name, stage in STAGES.items() if any(stage.files()))}."
            )
        inner = patterns[file].removeprefix(f"results/{analysis}/")
        return self._read(analysis, re.sub(r"\{\w+\}", "*", inner))

    def examples(self) -> pl.DataFrame:
        """One row per test text, with its demonstrations and the model's prediction.

        Columns ``model``, ``task``, ``seed``, ``example``, ``text``, ``label``, ``prediction``,
        ``correct``, ``probability`` (of the prediction), ``demonstration_texts``,
        ``demonstration_labels``, ``label_word``, and ``predicted_word``. Labels are indices of the
        configuration's label words, which the last two columns show.
        """
        keys = ["task", "seed", "example"]
        texts = self._read("samples", "*/*.parquet").filter(demonstrations="fixed")
        shown = ["text", "demonstration_texts", "demonstration_labels"]
        rows = self.table("attention", "predictions").join(
            texts.select(*keys, *shown), on=keys, how="inner", maintain_order="left"
        )
        tasks = self._config["tasks"].items()
        named = [
            (task, index, word) for task, of in tasks for index, word in enumerate(of["labels"])
        ]
        words = pl.DataFrame(
            named,
            {"task": pl.String, "index": rows["label"].dtype, "word": pl.String},
            orient="row",
        )
        for index, name in (("label", "label_word"), ("prediction", "predicted_word")):
            of_index = words.rename({"index": index, "word": name})
            rows = rows.cast({index: rows["label"].dtype}).join(
                of_index, on=["task", index], how="left", maintain_order="left"
            )
        return rows.select(
            *("model", *keys, "text", "label", "prediction"),
            correct=pl.col("prediction") == pl.col("label"),
            probability=pl.col("probabilities").list.get(pl.col("prediction")),
            demonstration_texts="demonstration_texts",
            demonstration_labels="demonstration_labels",
            label_word="label_word",
            predicted_word="predicted_word",
        )

    def figure(
        self, analysis: str, *paths: str | Path, model: str | None = None, **style: Any
    ) -> None:
        """Plot the figure of an analysis anew, in another style.

        Parameters
        ----------
        paths
            Files to write, such as ``flow.pdf``.
        model : str, optional
            Its model; not needed if the run has one.
        style
            In place of entries of ``figures`` in the configuration, such as ``font_size``. With
            ``width``, the figure has this width in inches.
        """
        summary = self.summary(analysis)
        models = summary["model"].unique(maintain_order=True).to_list()
        if model is None and len(models) > 1:
            raise InputError(f"the run has the models {', '.join(models)}; name one.")
        chosen = model or models[0]
        if chosen not in models:
            raise InputError(f"the run has no model {chosen}, only {', '.join(models)}.")
        of_model, config = summary.filter(model=chosen), self._config

        def twins(read: str) -> pl.DataFrame:
            """A table of the untrained twins of the model, of a stage or of ``stage/file``."""
            stage, _, file = read.partition("/")
            table, pattern = {key: found for key, *found in STAGES[stage].files()}[file]
            seeds = seeds_of(stage, config, "untrained")
            cells = product(twins_of(chosen, config), config["tasks"], seeds)
            inner = pattern.removeprefix("results/")
            files = [inner.format(model=twin, task=task, seed=seed) for twin, task, seed in cells]
            return read_tables([self.results / file for file in files], TABLES[table])

        if "width" in style:  # all of it, also for a single panel
            style.setdefault("panel_width", style["width"])
        plot_summary(analysis, of_model, config, paths, twins, **style)

    @cached_property
    def _config(self) -> Mapping[str, Any]:
        beside = self.results.resolve().parent
        given = self._configuration
        files = [Path(given)] if given else [beside / "config.yaml", beside / "config/config.yaml"]
        file = next((file for file in files if file.is_file()), None)
        if file is None:
            raise InputError(f"{files[0]}: no such file; name the run's configuration.")
        config: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        with contextlib.chdir(beside):  # where its paths start
            complete_configuration(config, WORKFLOW / "schemas" / "config.schema.yaml")
        return config

    def _listed(self) -> Collection[str] | None:
        """The files of the run that finished last; None if none has."""
        manifest = self.results / MANIFEST.name
        if not manifest.is_file():
            return None
        files: Collection[str] = read_json(manifest, remedy="run again to write it.")["files"]
        return files

    def _read(self, stage: str, pattern: str) -> pl.DataFrame:
        folder = self.results / stage
        found = (file.relative_to(folder) for file in sorted(folder.glob(pattern)))
        listed = self._listed()
        files = [
            file
            for file in found
            if not is_untrained(file.parts[0])
            and (listed is None or f"results/{stage}/{file.as_posix()}" in listed)
        ]
        if not files:
            raise InputError(f"{folder}: no results; the run has not measured this.")
        table = TABLES[table_at(f"results/{stage}/{files[0].as_posix()}")]
        return read_tables([folder / file for file in files], table)
