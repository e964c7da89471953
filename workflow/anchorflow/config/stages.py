"""All analyses, and all stages: the folders under ``results`` that hold tables or models."""

import importlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from anchorflow.config import registry
from anchorflow.config.analysis import CELL, MODEL, TASK, Analysis, Measured
from anchorflow.config.errors import InputError
from anchorflow.config.places import PACKAGE
from anchorflow.config.table import Measure, SummaryTable

# Conditions under which the papers' claims should not hold: a model's untrained twins, and
# demonstrations whose labels are exchanged among them.
NULLS = ("untrained", "shuffled")


@dataclass(frozen=True)
class Stage:
    """One folder of artifacts, with a job per ``path``; see :class:`Measured`."""

    name: str
    path: str = CELL
    tables: Mapping[str, str] = field(default_factory=dict)
    is_folder: bool = False  # jobs write folders of files that are not tables
    sharded: bool = False
    first_seed: bool = False
    section: str = ""  # of the configuration, with the numbers of seeds and texts
    repeatable: bool = True
    asked_for: str = ""

    def files(self) -> Iterator[tuple[str, str, str]]:
        """File, table and path pattern of every table that the stage writes."""
        if not self.is_folder:
            for file, table in self.tables.items():
                inner = f"{self.path}/{file}" if file else self.path
                yield file, table, f"results/{self.name}/{inner}.parquet"


def folder_of(name: str) -> str:
    """The place of the folder of an analysis, or of the claims."""
    return name if name == "claims" else registry.place("analyses", name)


def _read(name: str) -> Analysis:
    module = registry.module_at(folder_of(name))
    if name not in registry.installed("analyses"):
        built_in: Analysis = importlib.import_module(module).ANALYSIS
        return built_in
    try:
        if name in TAKEN:
            raise ValueError(f"{name} is the name of something else in a run")
        analysis = importlib.import_module(module).ANALYSIS
        if not isinstance(analysis, Analysis):
            raise TypeError("ANALYSIS is not an anchorflow.config.analysis.Analysis")
        for file in _needed(analysis):
            if not registry.file_of(f"{folder_of(name)}/{file}").is_file():
                raise FileNotFoundError(f"its folder has no {file}, which its declaration needs")
    except Exception as error:
        raise InputError(
            f"{module}: this analysis of another package can't be read ({error}); mend the "
            "package, or uninstall it."
        ) from None
    return analysis


# What folders, rules, and sections of the configuration that belong to no analysis are called.
TAKEN = (
    *("claims", "texts", "samples", "tokenizers", "models", "prompts", "embeddings", "rare_words"),
    *("further_embeddings", "perturbed_texts", "summaries", "figures", "tables", "shards", "atlas"),
    *("comparison", "summary", "benchmarks", "manifest", "costs", "tasks", "seeds", "scoring"),
    *("test_examples", "train_examples", "demonstrations_per_label", "word_score", "encoder"),
    *("controls", "compute", "statistics", "style", "worlds", "training"),
)


def _needed(analysis: Analysis) -> Iterator[str]:
    """The files that a declaration needs beside it."""
    if analysis.measured:
        yield "measure.py"
    if analysis.summary:
        yield "summarize.py"
    if analysis.figure:
        yield "plot.py"
    if analysis.figure or analysis.table:
        yield "caption.rst"
    if analysis.asked_for:
        yield "keys.yaml"


# By name, in the order of the report.
ANALYSES: Mapping[str, Analysis] = dict(
    sorted(
        ((name, _read(name)) for name in registry.packages("analyses")),
        key=lambda named: (named[1].category, named[0]),
    )
)
PRESENTED: Mapping[str, Analysis] = {**ANALYSES, "claims": _read("claims")}
# What the declarations of other packages import, in every job.
DECLARING = frozenset(file for file in registry.loaded_files() if not file.is_relative_to(PACKAGE))


def _prepared(name: str, path: str, asked_for: str = "") -> Stage:
    return Stage(name, path, {"": name}, asked_for=asked_for)


def _measured(name: str, of: Measured, asked_for: str) -> Stage:
    return Stage(
        name,
        of.path,
        of.tables or {"": name},
        sharded=of.sharded,
        first_seed=of.first_seed,
        section=of.follows or name,
        repeatable=of.repeatable,
        asked_for=asked_for,
    )


def _summarized(name: str, path: str, asked_for: str) -> Stage:
    table = {"": f"{name}_summary" if name != "claims" else name}
    repeatable = name != "claims"  # some are about times
    return Stage(f"summaries/{name}", path, table, repeatable=repeatable, asked_for=asked_for)


PREPARED = (
    _prepared("texts", TASK),
    _prepared("samples", "{task}/{seed}"),
    Stage("tokenizers", MODEL, is_folder=True),
    Stage("models", MODEL, is_folder=True),
    _prepared("prompts", CELL),
    _prepared("embeddings", TASK),
    _prepared("further_embeddings", TASK, "encoder.further"),
    _prepared("rare_words", TASK, "perturbations.kinds"),
    _prepared("perturbed_texts", "{task}/{seed}", "perturbations.kinds"),
)
MEASURED = tuple(
    _measured(name, analysis.measured, analysis.asked_for)
    for name, analysis in ANALYSES.items()
    if analysis.measured
)
_SUMMARIES = [
    _summarized(name, analysis.path, analysis.asked_for)
    for name, analysis in PRESENTED.items()
    if analysis.summary
]
# Of the claims on a training's checkpoints; {model} is the training's name.
_TRAINING = Stage("summaries/training", MODEL, {"": "training"}, repeatable=False)
STAGES: Mapping[str, Stage] = {
    stage.name: stage for stage in (*PREPARED, *MEASURED, *_SUMMARIES, _TRAINING)
}
SHARDED = tuple(stage.name for stage in MEASURED if stage.sharded)


def read_by_claims() -> dict[str, str]:
    """Tables that claims read, by name, or as ``stage_file`` if several stages write the table."""
    written = [(s.name, f, table) for s in (*PREPARED, *MEASURED) for f, table, _ in s.files()]
    count = Counter(table for _, _, table in written)
    named = {
        table if count[table] == 1 or not file else f"{stage}_{file}": (
            f"{stage}/{file}" if file else stage
        )
        for stage, file, table in written
    }
    named["predictions"] = "attention/predictions"  # kernel's are kernel_predictions
    wanted: set[str] = set()
    for at in registry.claim_places():
        reads = registry.declared(*at.rsplit("/", 1), "READS")
        if unknown := [name for name in reads if name not in named]:
            raise InputError(
                f"{registry.file_of(at)}.py: READS names {unknown[0]}, which is no table."
            )
        wanted |= {*reads}
    return {name: named[name] for name in sorted(wanted | {"predictions"})}


def reads_of(name: str, listed: Callable[[str], Any]) -> dict[str, str]:
    """The stages that a summary reads in a run, by argument; ``listed`` returns a key's value.

    A table that a run does not measure is left out, unless the analysis depends on the same key.
    """
    analysis = PRESENTED[name]
    assert analysis.summary is not None
    reads = read_by_claims() if name == "claims" else analysis.summary.reads
    needed = {read: STAGES[read.partition("/")[0]].asked_for for read in reads.values()}
    return {
        argument: read
        for argument, read in reads.items()
        if needed[read] in ("", analysis.asked_for) or listed(needed[read])
    }


def null_stages(null: str, controls: Mapping[str, Any]) -> list[str]:
    """The analyses that a run with these ``controls`` measures in one of ``NULLS``.

    With shuffled labels, only predictions are compared; the stage ``attention`` measures them.
    """
    if null == "untrained":
        wanted = controls["stages"] if controls["untrained"] else []
    else:
        wanted = ["attention"] if controls["shuffled_labels"] else []
    return [stage.name for stage in MEASURED if stage.name in wanted]


def null_reads(null: str, controls: Mapping[str, Any]) -> dict[str, str]:
    """Inputs of claims such as ``untrained_flow`` that a run with these ``controls`` has.

    They are the tables of all untrained twins of the model, or of all tasks with shuffled labels.
    """
    measured = null_stages(null, controls)
    return {
        f"{null}_{name}": read
        for name, read in read_by_claims().items()
        if read.partition("/")[0] in measured
    }


def seeds_of(stage: str, config: Mapping[str, Any], null: str = "") -> list[int]:
    """The run's seeds for which a stage is measured; fewer for nulls if so configured."""
    known, seeds = STAGES[stage], list(config["seeds"])
    if known.first_seed:
        return seeds[:1]
    limits = [config.get(known.section, {}).get("seeds")]
    limits += [config["controls"].get("seeds")] if null and known.section else []
    return seeds[: min((limit for limit in limits if limit is not None), default=None)]


def texts_of(name: str, config: Mapping[str, Any], untrained: bool = False) -> dict[str, int]:
    """How many test texts of each seed an analysis measures: ``examples``, or nothing for all.

    Attention has no section: it is measured for all texts, in twins too.
    """
    if STAGES[name].section not in config:
        return {}
    sections = (STAGES[name].section, *(["controls"] if untrained else []))
    limits = [config.get(section, {}).get("examples") for section in sections]
    known = [limit for limit in limits if limit is not None]
    return {"examples": min(known)} if known else {}


def measures_of(name: str) -> tuple[Measure, ...]:
    """The measures of an analysis's summary, if its table is declared by them."""
    declared_here = vars(importlib.import_module(registry.module_at(folder_of(name)))).values()
    tables = [table for table in declared_here if isinstance(table, SummaryTable)]
    return next((t.measures for t in tables if t.name == f"{name}_summary"), ())


def texts_summarized(name: str, config: Mapping[str, Any]) -> int | None:
    """How many texts of each seed a summary is of; None for all, as where it reads predictions."""
    summary = PRESENTED[name].summary
    reads_all = summary is not None and "attention/predictions" in summary.reads.values()
    return None if name not in STAGES or reads_all else texts_of(name, config).get("examples")


def stage_of(path: str) -> str:
    """The stage of a file under ``results``, or of a CSV file of a summary, by its path."""
    _, *parts = path.removesuffix(".csv").split("/")
    if parts[0] == "tables":
        summary = f"summaries/{parts[1]}"
        return summary if summary in STAGES else parts[1]
    return "/".join(parts[:2]) if parts[0] == "summaries" else parts[0]


COSTS = "results/tables/costs.csv"  # which the summary page shows, and no stage measures


def table_at(path: str) -> str:
    """The table that a file under ``results`` holds, by its path."""
    if path == COSTS:
        return "costs"
    tables = STAGES[stage_of(path)].tables
    return tables[""] if "" in tables else tables[path.removesuffix(".parquet").split("/")[-1]]


def files_of_tables() -> dict[str, list[str]]:
    """The path patterns of every table, including CSV files."""
    files: dict[str, list[str]] = {}
    for stage in STAGES.values():
        for _, table, pattern in stage.files():
            files.setdefault(table, []).append(pattern)
    for name, analysis in PRESENTED.items():
        if analysis.table and analysis.summary:
            table = STAGES[f"summaries/{name}"].tables[""]
            files[table].append(f"results/tables/{name}.csv")
        elif analysis.table:
            files[name].append(f"results/tables/{name}.csv")
    files["costs"] = [COSTS]
    return files
