"""What an analysis found for one model and one set of demonstrations, in Python."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.backend_bases import FigureCanvasBase

from anchorflow.config.analysis import Presented, Summary
from anchorflow.config.configuration import check_section, check_shown, default_settings
from anchorflow.config.errors import InputError
from anchorflow.config.places import WORKFLOW
from anchorflow.config.presented_settings import settings_named
from anchorflow.config.registry import load
from anchorflow.config.stages import PRESENTED, folder_of, null_stages
from anchorflow.present.style import of_tasks

_SCHEMA = WORKFLOW / "schemas" / "config.schema.yaml"
_OF_RUNS = {  # keys that say something of a run alone
    "seeds": "all texts that are given are measured",
    "examples": "all texts that are given are measured",
    "formats": "names of files say their formats",
}


@cache
def defaults() -> Mapping[str, Any]:
    """The configuration's sections with the defaults of all keys, without models and tasks."""
    return default_settings(_SCHEMA)


def section(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A section of the configuration with these keys; an :class:`InputError` if it is not valid."""
    check_section(name, given, _SCHEMA)
    for key in given:
        if key in _OF_RUNS:
            raise InputError(f"{name}.{key}: here, {_OF_RUNS[key]}; leave it out.")
    return {**defaults()[name], **given}


@dataclass(frozen=True)
class Measurement:
    """The tables of one analysis, as the workflow writes them, with their summary and figure."""

    analysis: str
    tables: Mapping[str, pl.DataFrame]  # by the arguments of the function that summarizes
    config: Mapping[str, Any]  # complete

    @property
    def rows(self) -> pl.DataFrame:
        """The measured table, one row per text and setting; the data dictionary has columns."""
        return next(iter(self.tables.values()))

    def summary(self) -> pl.DataFrame:
        """Means over texts with intervals: columns ``mean``, ``low`` and ``high``.

        The demonstrations are one draw, so intervals are over texts, given these.
        """
        summarize = getattr(
            load(folder_of(self.analysis), "summarize"), f"summarize_{self.analysis}"
        )
        declared = PRESENTED[self.analysis].summary
        assert declared is not None
        summary: pl.DataFrame = summarize(**self.tables, **_settings(declared, self.config))
        return summary

    def plot(self, *paths: str | Path, **style: Any) -> None:
        """Write the figure to one or more files such as ``flow.pdf`` or ``flow.png``.

        ``style`` replaces entries of ``figures`` in the configuration, such as ``font_size``.
        """
        plot_summary(self.analysis, self.summary(), self.config, paths, **style)

    def _repr_png_(self) -> bytes:
        """The figure, as notebooks show it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{self.analysis}.png")
            self.plot(path)
            return path.read_bytes()


def _settings(declared: Summary | Presented, config: Mapping[str, Any]) -> dict[str, Any]:
    parts = settings_named(declared.settings, config).values()
    return {key: value for part in parts for key, value in part.items()}


def plot_summary(
    analysis: str,
    summary: pl.DataFrame,
    config: Mapping[str, Any],
    paths: tuple[str | Path, ...],
    untrained: Callable[[str], pl.DataFrame] | None = None,
    **style: Any,
) -> None:
    """Plot a summary with the settings of a configuration, in a style that may differ.

    ``untrained`` gives the table of a stage, or of ``stage/file``, for the untrained twins, for
    figures that show them.
    """
    declared = PRESENTED[analysis].figure if analysis in PRESENTED else None
    if declared is None or declared.reads:
        raise InputError(f"{analysis} has no figure that is drawn from its summary alone.")
    known = sorted(FigureCanvasBase.get_supported_filetypes())
    kinds = [Path(path).suffix.removeprefix(".").lower() for path in paths]
    if not paths:
        raise InputError('there is no file to write the figure to; name one, such as "flow.pdf".')
    for path, kind in zip(paths, kinds, strict=True):
        if kind not in known:
            raise InputError(
                f"{path}: its name ends in no format of figures; choose one of {', '.join(known)}."
            )
    section("figures", style)
    check_shown(style.get("tasks", ()), config["tasks"])
    plot = getattr(load(folder_of(analysis), "plot"), f"plot_{analysis}")
    look = {**config["figures"], **style}
    settings = _settings(declared, config)
    settings["confidence"] = config["statistics"]["confidence"]
    for argument, read in declared.untrained.items():
        measured = read.partition("/")[0] in null_stages("untrained", config["controls"])
        if untrained and measured:
            settings[argument] = untrained(read)  # averaged by the figure, over all tasks
    taken = {key: value for key, value in settings.items() if key in signature(plot).parameters}
    for path, kind in zip(paths, kinds, strict=True):  # files may have the same format
        plot(summary=of_tasks(summary, look), style=look, paths={kind: path}, **taken)
