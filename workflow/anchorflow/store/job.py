"""What every job does besides its work: it logs, and checks that its inputs and code are unchanged.

Presenting jobs also read their inputs and settings here.
"""

import contextlib
import os
import resource
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import psutil

from anchorflow.config.digests import counts, digest_now, tracked
from anchorflow.config.errors import InputError
from anchorflow.config.job_environment import PLANNED
from anchorflow.config.places import PACKAGE, WORKFLOW
from anchorflow.config.registry import is_schema, loaded_files
from anchorflow.config.stages import DECLARING, table_at
from anchorflow.store.all_tables import TABLES
from anchorflow.store.logs import job_log
from anchorflow.store.parquet import read_settings, read_tables
from anchorflow.store.replacing import replacing

_LOGS, _BENCHMARKS = Path("logs"), Path("results/benchmarks")


@contextlib.contextmanager
def job(snakemake: Any) -> Iterator[None]:
    """Log a job, and refuse its result if an input or its code changed since the run was planned.

    It is a bug if a module that computes numbers was run and is not among the code in its params.
    """
    log = Path(snakemake.log[0])
    with job_log(str(log), snakemake.input):
        _check_copy(Path(snakemake.scriptdir))
        code = tracked(snakemake.params)
        _check_digests(code)
        yield
        _check_digests(code)  # of modules that were loaded late, too
        _check_loaded(set(code))
        if log.is_relative_to(_LOGS):
            _write_usage(_BENCHMARKS / log.relative_to(_LOGS).with_suffix(".tsv"))


def _write_usage(path: Path) -> None:
    """Write a job's seconds, processor seconds, and largest resident memory in MiB.

    Snakemake would measure the process that it started, which only waits for the fork that works.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    values = {
        "s": _age(),
        "cpu_time": used.ru_utime + used.ru_stime,
        "max_rss": used.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
    }
    with replacing(path) as file:
        rows = "\t".join(values), "\t".join(f"{value:.2f}" for value in values.values())
        file.write_text("\n".join((*rows, "")), encoding="utf-8")


def read_usage(names: Collection[str]) -> pl.DataFrame:
    """The time of each job whose model, task and seed, as far as it has them, are among ``names``.

    Columns ``rule``, ``names``, ``seconds`` and ``cpu_seconds``. A result that another run had
    already made has the time of the job that made it.
    """
    rows = []
    for path in sorted(_BENCHMARKS.rglob("*.tsv")):
        rule, *of_job = path.relative_to(_BENCHMARKS).with_suffix("").parts
        if set(of_job) <= set(names):
            header, values = (line.split("\t") for line in path.read_text("utf-8").splitlines())
            used = dict(zip(header, map(float, values), strict=True))
            rows.append((rule, of_job, used["s"], used["cpu_time"]))
    schema: dict[str, Any] = {
        "rule": pl.String,
        "names": pl.List(pl.String),
        "seconds": pl.Float64,
        "cpu_seconds": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _age() -> float:
    """Seconds since this process was started.

    On Linux, measured since boot: the time of day of the start is known in whole seconds only.
    """
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return float(time.time() - psutil.Process().create_time())
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22, counted from 1, of proc(5)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def settings_of(params: Any) -> dict[str, Mapping[str, Any]]:
    """The parts of the configuration among a presenting rule's params, by their names."""
    return {name: part for name, part in params.items() if isinstance(part, Mapping)}


def arguments_of(params: Any) -> dict[str, Any]:
    """The entries of these parts in one mapping: arguments of a presenting function."""
    return {key: value for part in settings_of(params).values() for key, value in part.items()}


def read_inputs(snakemake: Any) -> dict[str, pl.DataFrame]:
    """The tables that a presenting job reads, by the names of its inputs."""
    return {
        name: read_tables(paths, TABLES[table_at(paths[0])])
        for name, paths in snakemake.input.items()
    }


def agreed_settings(paths: Sequence[str]) -> dict[str, Any]:
    """The settings of several files of one table, as far as all of them have the same.

    Files of other tasks have other templates, for instance, which no single one stands for.
    """
    first, *others = (read_settings(path) for path in paths)
    return {k: v for k, v in first.items() if all(o.get(k) == v for o in others)}


def confidence_of(inputs: Any) -> float | None:
    """The confidence level of intervals in a presenting job's inputs; None if there are none."""
    known = (read_settings(paths[0]).get("confidence") for _, paths in inputs.items())
    return next(filter(None, known), None)


def _check_copy(scripts: Path) -> None:
    """Check that this package is the one next to the scripts, which the rules keep track of."""
    if scripts.resolve().parent != WORKFLOW.resolve():
        raise InputError(
            f"{PACKAGE}: this copy of the package is not the one of the workflow in "
            f"{scripts.parent}; uninstall it from the environment that the job runs in, or install "
            "the workflow's own."
        )


def _check_digests(code: Mapping[Path, str]) -> None:
    """Check that files compute what they computed when the run was planned.

    Schemas are left out, of which only the tables that a rule uses have a digest.
    """
    planned = float(os.environ.get(PLANNED, 0.0))
    for path, known in code.items():
        times = path.stat()
        edited = max(times.st_mtime, times.st_ctime) >= planned and not is_schema(path)
        if edited and digest_now(path) != known:
            raise InputError(
                f"{path}: changed since the run was planned; run again, so that the job runs the "
                "code that it is recorded with."
            )


def _check_loaded(code: set[Path]) -> None:
    """Check that no module has escaped the rule's digests.

    Schemas are left out: they only describe tables, and are all loaded to find one by its name.
    """
    for path in sorted(loaded_files()):
        known = path in code or path in DECLARING or is_schema(path)
        if counts(path) and not known:
            raise RuntimeError(f"{path} was run, but is not among the code in the rule's params")
