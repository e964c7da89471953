"""What an analysis found for one model and one set of demonstrations, in Python."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import polars as pl

from anchorflow.config.configuration import check_section, default_settings
from anchorflow.config.errors import InputError
from anchorflow.config.places import WORKFLOW
from anchorflow.config.presented_settings import settings_named
from anchorflow.config.registry import load
from anchorflow.config.stages import PRESENTED, folder_of

_SCHEMA = WORKFLOW / "schemas" / "config.schema.yaml"


@cache
def defaults() -> Mapping[str, Any]:
    """The configuration's sections with the defaults of all keys, without models and tasks."""
    return default_settings(_SCHEMA)


def section(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A section of the configuration with these keys; an :class:`InputError` if it is not valid."""
    check_section(name, given, _SCHEMA)
    return {**defaults()[name], **given}


@dataclass(frozen=True)
class Measurement:
    """The tables of one analysis, as the workflow writes them, with their summary and figure.

    Parameters
    ----------
    analysis : str
        Its name.
    tables : mapping
        What its summary reads, by the arguments of the function that summarizes.
    config : mapping
        A complete configuration.
    """

    analysis: str
    tables: Mapping[str, pl.DataFrame]
    config: Mapping[str, Any]

    @property
    def rows(self) -> pl.DataFrame:
        """The measured table, one row per text and setting; see reference/data_dictionary.md."""
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
        parts = settings_named(declared.settings, self.config).values()
        settings = {key: value for part in parts for key, value in part.items()}
        summary: pl.DataFrame = summarize(**self.tables, **settings)
        return summary

    def plot(self, *paths: str | Path, **style: Any) -> None:
        """Write the figure to files such as ``flow.pdf`` or ``flow.png``.

        ``style`` replaces entries of ``figures`` in the configuration, such as ``font_size``.
        """
        plot_summary(self.analysis, self.summary(), self.config, paths, **style)

    def _repr_png_(self) -> bytes:
        """The figure, as notebooks show it."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"{self.analysis}.png")
            self.plot(path)
            return path.read_bytes()


def plot_summary(
    analysis: str,
    summary: pl.DataFrame,
    config: Mapping[str, Any],
    paths: tuple[str | Path, ...],
    **style: Any,
) -> None:
    """Plot a summary with the settings of a configuration, in a style that may differ."""
    declared = PRESENTED[analysis].figure if analysis in PRESENTED else None
    if declared is None or declared.reads:
        raise InputError(f"{analysis} has no figure that is drawn from its summary alone.")
    plot = getattr(load(folder_of(analysis), "plot"), f"plot_{analysis}")
    parts = settings_named(declared.settings, config).values()
    known = {key: value for part in parts for key, value in part.items()}
    known["confidence"] = config["statistics"]["confidence"]
    plot(
        summary=summary,
        style={**config["figures"], **style},
        paths={Path(path).suffix.removeprefix("."): path for path in paths},
        **{key: value for key, value in known.items() if key in signature(plot).parameters},
    )
