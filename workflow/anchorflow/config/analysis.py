"""The declaration of an analysis, which stands in its folder's ``__init__``.

The rules, the manifest, the data dictionary and the estimate of a run's time read it from there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anchorflow.config.table import WORDS

MODEL, TASK, CELL = "{model}", "{task}", "{model}/{task}/{seed}"
WORLDS = "worlds"  # results on random worlds involve no model, and are in one file

# Categories of the report, which sorts them by name.
CLAIMS = "1 Claims"
INFORMATION = "2 Label words as anchors"
ANCHORS = "3 Anchors put to use"
KERNEL_REGRESSION = "4 Kernel regression"
ACCURACY = "5 Accuracy"
CAUSES = "6 What carries the answer"


@dataclass(frozen=True)
class Measured:
    """What the rule ``measure_{analysis}`` writes, in one job per ``path``.

    With several ``tables``, by file, a job writes ``path/file.parquet``; else one file, with the
    table that has the analysis's name.

    With a ``message``, ``rules/measuring.smk`` makes the rule; others have a rule file of their
    own. ``reads`` maps inputs to a ``stage``, or to a ``stage/file`` if the stage has several
    tables.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    path: str = CELL
    sharded: bool = False  # a large test set is split among several jobs
    first_seed: bool = False  # measured for the first seed only
    follows: str = ""  # the analysis on whose settings its seeds, texts and cost depend as well
    twins: bool = False  # may be measured in untrained twins, which controls.stages lists
    repeatable: bool = True  # False: contains measured times, which differ between runs
    message: str = ""  # of a job, as in "Scoring the heads of {model} for {task}"
    reads: Mapping[str, str] = field(
        default_factory=lambda: {"prompts": "prompts", "model": "models"}
    )
    scored: bool = False  # depends on how label words are scored
    builds_prompts: bool = False  # depends on the wording of prompts
    without: tuple[str, ...] = ()  # keys of its section on which only other rules depend


@dataclass(frozen=True)
class Summary:
    """What the rule ``summarize_{analysis}`` reads, for one model.

    ``reads`` maps each argument of the function to a ``stage``, or to a ``stage/file`` if the stage
    has several tables. ``settings`` are names of parts of the configuration in
    ``config/presented_settings.py``.
    """

    reads: Mapping[str, str]
    settings: tuple[str, ...] = ("statistics",)
    with_words: bool = False  # reads tasks with several sets of label words, one cell per set
    heavy: bool = False  # may take as much memory as the model


@dataclass(frozen=True)
class Presented:
    """A figure per model, or a table of all models: its title in the report, and its inputs.

    Without ``reads``, it shows the summary. ``settings`` are as in :class:`Summary`. ``untrained``
    maps arguments to tables of the model's untrained twins, if their stage is measured there.
    """

    title: str
    reads: Mapping[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    untrained: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tabulated(Presented):
    """A table that its summary's keys, and the words of its measures, suffice to make.

    One row per model and ``index``, by default all keys; one column per value of ``column``. The
    ``note`` precedes what the measures are. Without a ``measure``, all are shown but those that are
    in the CSV file alone.
    """

    note: str = field(default="", metadata=WORDS)
    index: tuple[str, ...] = ()
    column: str = "measure"
    measure: str = ""
    averaged: bool = False  # over tasks alone
    at_depths: bool = False  # five layers


@dataclass(frozen=True)
class Analysis:
    """One folder of ``analyses``; its rules, paths and settings have its name."""

    subject: str  # in messages; "{}" stands for the model
    category: str  # of the report
    measured: Measured | None = None
    summary: Summary | None = None
    figure: Presented | None = None
    table: Presented | None = None
    asked_for: str = ""  # key of a list or number; if empty or 0, runs leave the analysis out
    check: Callable[[Mapping[str, Any]], None] | None = None  # what no schema can, of keys together

    @property
    def path(self) -> str:
        """The name of the summary's and the figure's file, without ending."""
        return WORLDS if self.measured and self.measured.path == WORLDS else MODEL
