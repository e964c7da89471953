"""Runs of Snakemake, each in a process forked from one that has imported what they import."""

import atexit
import multiprocessing
import os
import socket
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from unittest.mock import patch

_SECONDS = 900  # that a run may take
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(
    ["snakemake.cli", "snakemake.executors", "jsonschema", "yaml", "libraries", "parsed_sources"]
)
# Where it finds them: Python 3.11 does not hand its path on to the process that is forked from.
_PRELOADED_FROM = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "workflow")]


def _serve_jobs(run: int, package: Path) -> None:
    """Be the server of forks that a run's first job would start, but with all imported before.

    Returns at once in the run's own process, and never in the server's and its forks'.
    """
    if os.fork():
        return
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.path.insert(0, str(package))
    from anchorflow.store import fork_server

    os.environ.update(fork_server.BEFORE_FORKS)
    status = 0
    try:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(fork_server.address(str(run)))
        listener.listen(128)
        fork_server.serve(listener, run)
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(
    arguments: Sequence[str], folder: str, environment: dict[str, str], output: str, package: Path
) -> None:
    """Run Snakemake's command line, as a process of its own would."""
    from snakemake.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.dont_write_bytecode = "PYTHONDONTWRITEBYTECODE" in environment
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    if "--dry-run" not in arguments:
        _serve_jobs(os.getpid(), package)
    with open(output, "a", encoding="utf-8") as file:  # each write at the end, as on a console
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
        sys.stdout = sys.stderr = open(output, "a", encoding="utf-8", buffering=1)  # noqa: SIM115
        try:
            main(list(arguments))
        finally:
            atexit._run_exitfuncs()
            sys.stdout.flush()


def run_snakemake(
    arguments: Sequence[str], folder: Path, environment: dict[str, str], package: Path | None = None
) -> tuple[int | None, str]:
    """Exit code and output of Snakemake with these arguments in a folder.

    The environment is the whole one, since the process forked from has that of when it was
    started; of what a Python does of its environment when it starts, only its path is extended. The
    package's folder is by default that of the workflow in the folder.
    """
    from anchorflow.store.fork_server import BEFORE_FORKS

    with patch.dict(os.environ, BEFORE_FORKS, PYTHONPATH=os.pathsep.join(_PRELOADED_FROM)):
        ensure_running()
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as output:
        process = _PROCESSES.Process(
            target=_run,
            args=(arguments, str(folder), environment, output.name, package or folder / "workflow"),
        )
        process.start()
        process.join(_SECONDS)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise TimeoutError(f"Snakemake took {_SECONDS} s: {output.read()[-8000:]}")
        return process.exitcode, output.read()
