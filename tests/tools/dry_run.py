"""Dry runs of Snakemake, each in a process forked from one that has imported Snakemake already."""

import multiprocessing
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_SECONDS = 900  # that a dry run may take
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["snakemake.cli", "snakemake.executors", "jsonschema", "yaml"])


def _run(arguments: Sequence[str], folder: str, environment: dict[str, str], output: str) -> None:
    """Run Snakemake's command line, as a process of its own would."""
    from snakemake.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    with open(output, "w", encoding="utf-8") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.stdout = sys.stderr = open(output, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        try:
            main(list(arguments))
        finally:
            sys.stdout.flush()


def dry_run(
    arguments: Sequence[str], folder: Path, environment: dict[str, str]
) -> tuple[int | None, str]:
    """Exit code and output of Snakemake with these arguments, a dry run, in a folder.

    The environment is the whole one, since the server's is that of when it was started.

    Raises
    ------
    TimeoutError
        If it hangs.
    """
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
        process = _PROCESSES.Process(
            target=_run, args=(arguments, str(folder), environment, output.name)
        )
        process.start()
        process.join(_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"Snakemake took {_SECONDS} s: {output.read()[-8000:]}")
        return process.exitcode, output.read()
