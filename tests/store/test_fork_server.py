"""Scripts that continue in forks of a server: nothing about a job changes but who imports."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from anchorflow.config.import_path import ALONE, RUN
from anchorflow.store.fork_server import _opened

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")

ROOT = Path(__file__).parents[2]
BEGINNING = """
import os, sys
from types import SimpleNamespace
from anchorflow.store.fork_server import continue_in_fork
continue_in_fork(
    SimpleNamespace(
        params={"code_model_devices": "model/devices.py 0"},
        input={"tokenizer": "tokenizer"} if os.path.isdir("tokenizer") else {},
    )
)
forked = "torch" in sys.modules
"""


@pytest.fixture
def run() -> Iterator[subprocess.Popen]:
    """A process that stands for that of Snakemake."""
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def started(run: subprocess.Popen, tmp_path: Path) -> Callable[..., subprocess.Popen]:
    """Start a script, as Snakemake would, of a beginning that all have and the given rest."""

    def start(rest: str, folder: Path = tmp_path, **environment: str) -> subprocess.Popen:
        script = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        script.write_text(BEGINNING + rest, encoding="utf-8")
        given = {**os.environ, "PYTHONPATH": str(ROOT / "workflow"), RUN: str(run.pid)}
        return subprocess.Popen(
            [sys.executable, str(script)],
            cwd=folder,
            env={**given, "OMP_NUM_THREADS": "1", **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

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
print(os.getpid(), os.getppid(), flush=True)
try:
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit(7)
"""


def waiting(job: subprocess.Popen) -> tuple[int, int]:
    """The processes of a waiting job's fork and of the server."""
    fork, server = map(int, job.stdout.readline().split())
    name = Path(f"/proc/{fork}/comm").read_text(encoding="utf-8").strip()
    assert name == Path(job.args[1]).stem[:15]  # by which users tell jobs apart
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
    started: Callable[..., subprocess.Popen], run: subprocess.Popen
) -> None:
    job = started(WAITS)
    fork, server = waiting(job)
    run.kill()
    run.wait()
    wait_until(lambda: ended(fork) and ended(server))
    assert job.wait(20) == -signal.SIGKILL
    job.communicate()


SAYS_WHAT_IS_OPEN = """
from pathlib import Path
from anchorflow.store.opened import opened
found = opened(Path("tokenizer/tokenizer.json"))
print(forked, found and found.encode("a b c").ids)
"""


def write_tokenizer(path: Path, words: str) -> None:
    path.parent.mkdir(exist_ok=True)
    model = WordLevel({word: number for number, word in enumerate(words.split())}, unk_token="b")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(path))


def test_jobs_find_the_tokenizer_open_as_its_file_is_now(
    started: Callable[..., subprocess.Popen], tmp_path: Path
) -> None:
    folder = tmp_path / "other"
    folder.mkdir()
    path = folder / "tokenizer" / "tokenizer.json"
    for words, printed in (("a b c", [0, 1, 2]), ("c a b", [1, 2, 0])):
        write_tokenizer(path, words)
        job = started(SAYS_WHAT_IS_OPEN, folder)
        assert job.communicate(timeout=60) == (f"True {printed}\n", "")
    path.write_text("{", encoding="utf-8")
    assert started(SAYS_WHAT_IS_OPEN, folder).communicate(timeout=60) == ("True None\n", "")


def test_a_device_that_was_opened_is_seen(tmp_path: Path) -> None:
    device = str(tmp_path / "nvidia")
    assert not _opened(device)
    with open(f"{device}ctl", "w", encoding="utf-8"):
        assert _opened(device)
    assert not _opened(device)


@pytest.mark.parametrize("reason", ["wish", "no run", "threads"])
def test_a_script_runs_in_its_own_process_where_there_is_no_fork(
    started: Callable[..., subprocess.Popen],
    run: subprocess.Popen,
    tmp_path: Path,
    reason: str,
) -> None:
    environment = {}
    if reason == "wish":
        environment = {ALONE: "1"}
    elif reason == "no run":
        run.kill()
        run.wait()
    else:  # a library starts one in the server
        code = "import threading as t\nt.Thread(target=t.Event().wait, daemon=True).start()"
        (tmp_path / "first").mkdir()
        (tmp_path / "first" / "sitecustomize.py").write_text(code, encoding="utf-8")
        environment = {"PYTHONPATH": f"first:{ROOT / 'workflow'}"}
    job = started("print(forked)", **environment)
    assert job.communicate(timeout=60) == ("False\n", "")
    assert job.returncode == 0
