"""Scripts that continue in forks of a server: nothing about a job changes but who imports."""

import ast
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from anchorflow.config.job_environment import ALONE, RUN
from anchorflow.store.fork_server import BEFORE_FORKS

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")

ROOT = Path(__file__).parents[2]
BEGINNING = """
import os, sys
from types import SimpleNamespace
from anchorflow.store.fork_server import continue_in_fork
tokenizer = {"tokenizer": "tokenizer"} if os.path.isdir("tokenizer") else {"tokenizer": []}
continue_in_fork(SimpleNamespace(params={"code_model": ["model/devices.py 0"]}, input=tokenizer))
forked = "torch" in sys.modules
"""


def of_snakemake() -> Iterator[subprocess.Popen]:
    """A process that stands for that of Snakemake."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


run = pytest.fixture(of_snakemake, scope="module")  # whose server most tests share
own_run = pytest.fixture(of_snakemake)


@pytest.fixture
def started(run: subprocess.Popen, tmp_path: Path) -> Callable[..., subprocess.Popen]:
    """Start a script, as Snakemake would, of a beginning that all have and the given rest."""

    def start(
        rest: str, folder: Path = tmp_path, of: subprocess.Popen = run, **environment: str
    ) -> subprocess.Popen:
        script = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        script.write_text(BEGINNING + rest, encoding="utf-8")
        given = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), RUN: str(of.pid)}
        streams: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        environment = {**given, "OMP_NUM_THREADS": "1", **environment}
        command = [sys.executable, str(script)]
        return subprocess.Popen(command, cwd=folder, env=environment, text=True, **streams)

    return start


def ended(process: int) -> bool:
    """Whether a process is gone, or only waits for its parent to notice."""
    try:
        return "\nState:\tZ" in Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    except FileNotFoundError:
        return True


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


SAYS_WHERE_IT_IS = """
print(forked, os.getcwd(), os.environ["OMP_NUM_THREADS"], os.environ.get("GIVEN"), sys.argv[0])
print(sys.stdin.read(), sys.modules["torch"].get_num_threads())
print("to the error stream", file=sys.stderr)
print([name for name in sys.modules if name.startswith("anchorflow.model")])
"""


def test_a_fork_has_its_jobs_streams_folder_environment_arguments_and_threads(
    started: Callable[..., subprocess.Popen], tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for threads in ("2", "1"):
        job = started(SAYS_WHERE_IT_IS, other, OMP_NUM_THREADS=threads, GIVEN=f"for {threads}")
        printed, errors = job.communicate("what was typed", timeout=60)
        assert printed.splitlines() == [
            f"True {other} {threads} for {threads} {job.args[1]}",
            f"what was typed {threads}",
            "[]",  # this package's own modules are imported anew
        ]
        assert errors == "to the error stream\n"
        assert job.returncode == 0


@pytest.mark.parametrize(
    ("ending", "code"),
    [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", -9), ("os.kill(os.getpid(), 15)", -15)],
)
def test_a_script_ends_as_its_fork_does(
    started: Callable[..., subprocess.Popen], ending: str, code: int
) -> None:
    job = started(f"assert forked\nprint('there', flush=True)\n{ending}")
    assert job.communicate(timeout=60) == ("there\n", "")
    assert job.returncode == code


def test_an_error_shows_the_scripts_own_lines(started: Callable[..., subprocess.Popen]) -> None:
    job = started("assert forked\nprint('there')\nraise KeyError('missing')\n")
    printed, errors = job.communicate(timeout=60)
    assert (printed, job.returncode) == ("there\n", 1)
    assert f'File "{job.args[1]}"' in errors
    assert errors.endswith("KeyError: 'missing'\n")


WAITS = """
assert forked
import time
import psutil
print(os.getpid(), psutil.Process().parent().ppid(), flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(7)
"""


def waiting(job: subprocess.Popen) -> tuple[int, int]:
    """The processes of a waiting job's fork and of the server."""
    fork, server = map(int, job.stdout.readline().split())
    assert job.pid not in (fork, server)
    assert not ended(fork)
    return fork, server


def test_a_fork_ends_with_its_script_and_is_interrupted_with_it(
    started: Callable[..., subprocess.Popen],
) -> None:
    killed, interrupted = started(WAITS), started(WAITS)
    fork, server = waiting(killed)
    assert waiting(interrupted)[1] == server  # of which there is one
    killed.kill()
    wait_until(lambda: ended(fork))
    interrupted.send_signal(signal.SIGINT)
    assert interrupted.wait(20) == 7
    assert not ended(server)
    for job in (killed, interrupted):
        job.communicate()


def test_server_and_forks_end_with_the_run(
    started: Callable[..., subprocess.Popen], own_run: subprocess.Popen
) -> None:
    job = started(WAITS, of=own_run)
    fork, server = waiting(job)
    own_run.kill()
    own_run.wait()
    wait_until(lambda: ended(fork) and ended(server))
    assert job.wait(20) == -signal.SIGKILL
    job.communicate()


SAYS_WHAT_IS_READ = """
from anchorflow.store import shared_tokenizer
print(forked, shared_tokenizer._read.cache_info().currsize)
"""


def test_jobs_find_their_tokenizer_read(
    started: Callable[..., subprocess.Popen], tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    (folder / "tokenizer").mkdir(parents=True)
    for text, read in (("{", 0), (Tokenizer(WordLevel({"a": 0})).to_str(), 1)):
        (folder / "tokenizer" / "tokenizer.json").write_text(text, encoding="utf-8")
        job = started(SAYS_WHAT_IS_READ, folder)
        assert job.communicate(timeout=60) == (f"True {read}\n", "")


# Threads that wait for what happens only where polars computes are of no use to forks.
IMPORTS_ALL = """
import importlib, os, pkgutil
from pathlib import Path
import anchorflow
for module in pkgutil.walk_packages(anchorflow.__path__, "anchorflow."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print({path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")})
print([each for each in os.scandir("/proc/self/fd") if "nvidia" in os.path.realpath(each.path)])
"""


def test_importing_the_package_starts_no_threads_and_opens_no_gpu() -> None:
    """A fork has only the thread that forks, and can't use a GPU that was in use before."""
    environment = {**os.environ, **BEFORE_FORKS, "PYTHONPATH": str(ROOT / "workflow")}
    code = [sys.executable, "-c", IMPORTS_ALL]
    done = subprocess.run(code, env=environment, capture_output=True, text=True, check=True)
    threads, devices = done.stdout.splitlines()
    assert ast.literal_eval(threads) <= {"python", "python3", "polars-ooc-clea"}
    assert devices == "[]"


STARTS_THREADS = """
import threading, time
for _ in range(2):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
"""


def test_a_server_that_has_threads_does_not_fork(
    started: Callable[..., subprocess.Popen], own_run: subprocess.Popen, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(STARTS_THREADS, encoding="utf-8")
    job = started("print(forked)", of=own_run, PYTHONPATH=f"{tmp_path}:{ROOT / 'workflow'}")
    assert job.communicate(timeout=60) == ("False\n", "")


def test_a_script_runs_in_its_own_process_where_there_is_no_fork(
    started: Callable[..., subprocess.Popen], own_run: subprocess.Popen
) -> None:
    own_run.kill()
    own_run.wait()
    for job in (started("print(forked)", **{ALONE: "1"}), started("print(forked)", of=own_run)):
        assert job.communicate(timeout=60) == ("False\n", "")
        assert job.returncode == 0
