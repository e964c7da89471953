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
from anchorflow.store import fork_server
from anchorflow.store.fork_server import _opened

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")

ROOT = Path(__file__).parents[2]
BEGINNING = """
import os, sys
from types import SimpleNamespace
from anchorflow.store.fork_server import continue_in_fork
continue_in_fork(
    SimpleNamespace(
        params={
            "code_model_devices": "model/devices.py 0",
            **({"compute": SimpleNamespace(device=os.environ["ON"])} if "ON" in os.environ else {}),
        },
        input={
            **({"tokenizer": "tokenizer"} if os.path.isdir("tokenizer") else {}),
            **({"model": os.environ["MODEL"]} if "MODEL" in os.environ else {}),
        },
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


# A job with a model on a "GPU": it opens one that is not open, says so, and does what it is given.
USES_A_MODEL = """
from pathlib import Path
from anchorflow.store.opened import keep_model, kept_model
import anchorflow.model.devices as devices
import torch
assert forked
anew = not hasattr(devices, "SEEN")
devices.SEEN = True
card = Path(os.environ["MODEL"], "model.json")
model = kept_model(card, "cuda")
if model is None:
    keep_model(card, "cuda", torch.nn.Linear(2, 2).requires_grad_(False))
threads = torch.get_num_threads()
print(os.getpid(), model is not None, anew, threads, os.environ.get("GIVEN"), sys.stdin.read())
print("to the error stream", file=sys.stderr, flush=True)
"""


@pytest.fixture
def on_gpu(
    started: Callable[..., subprocess.Popen], tmp_path: Path
) -> Callable[..., tuple[int, str]]:
    """Run a job with one of the models to its end: its process, and what else it prints."""
    folder = tmp_path / "other"
    for name in "ab":
        (folder / name).mkdir(parents=True)
        (folder / name / "model.json").touch()

    def run(rest: str = "", model: str = "a", code: int = 0, **environment: str) -> tuple[int, str]:
        given = {"ON": "cuda", "MODEL": model, **environment}
        job = started(USES_A_MODEL + rest, folder, **given)
        printed, errors = job.communicate("typed", timeout=60)
        assert errors.startswith("to the error stream\n")
        assert job.returncode == code
        process, printed = printed.rstrip("\n").split(" ", 1)
        return int(process), printed

    return run


def test_a_fork_that_keeps_a_model_goes_on_with_further_jobs(
    on_gpu: Callable[..., tuple[int, str]], started: Callable[..., subprocess.Popen]
) -> None:
    first, printed = on_gpu(GIVEN="one")
    assert printed == "False True 1 one typed"
    for threads in "21":
        assert on_gpu(OMP_NUM_THREADS=threads, GIVEN="two") == (
            first,
            f"True True {threads} two typed",
        )
    job = started("print(os.getpid())")  # that uses no GPU
    assert int(job.communicate(timeout=60)[0]) != first
    assert not ended(first)
    assert on_gpu(model="b") == (first, "False True 1 None typed")  # beside the other
    assert on_gpu(model="b") == (first, "True True 1 None typed")
    assert on_gpu(model="a") == (first, "True True 1 None typed")


def test_forks_that_wait_make_room_for_other_uses_of_a_gpu(
    on_gpu: Callable[..., tuple[int, str]], started: Callable[..., subprocess.Popen]
) -> None:
    first, _ = on_gpu()
    job = started("print(os.getpid())", ON="cuda")  # without a model
    assert int(job.communicate(timeout=60)[0]) != first
    assert ended(first)
    second, printed = on_gpu()
    assert second != first
    assert printed.startswith("False")


@pytest.mark.parametrize(
    ("rest", "code"),
    [
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), 9)", -9),
        ("1 / 0", 1),
        ("kept_model(card, 'cuda').weight.add_(1)", 0),  # the next job would run another model
    ],
)
def test_a_fork_whose_job_fails_or_changes_the_model_does_no_further_one(
    on_gpu: Callable[..., tuple[int, str]], rest: str, code: int
) -> None:
    first, _ = on_gpu()
    assert on_gpu(rest, code=code)[0] == first
    wait_until(lambda: ended(first))
    second, printed = on_gpu()
    assert second != first
    assert printed.startswith("False")


def test_a_fork_that_is_killed_while_it_waits_is_replaced(
    on_gpu: Callable[..., tuple[int, str]],
) -> None:
    first, _ = on_gpu()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: ended(first))
    assert on_gpu()[0] != first


def test_forks_that_wait_end_with_the_run(
    on_gpu: Callable[..., tuple[int, str]], run: subprocess.Popen
) -> None:
    first, _ = on_gpu()
    run.kill()
    run.wait()
    wait_until(lambda: ended(first))


def test_a_further_job_ends_its_fork_with_its_script(
    on_gpu: Callable[..., tuple[int, str]], started: Callable[..., subprocess.Popen], tmp_path: Path
) -> None:
    first, _ = on_gpu()
    job = started(WAITS, tmp_path / "other", ON="cuda", MODEL="a")
    assert waiting(job)[0] == first
    job.kill()
    wait_until(lambda: ended(first))
    job.communicate()
    assert on_gpu()[0] != first


def test_forks_see_the_gpus_of_the_server_not_those_of_a_step(
    on_gpu: Callable[..., tuple[int, str]],
) -> None:
    rest = "print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
    on_gpu(CUDA_VISIBLE_DEVICES="0,1")  # starts the server
    for of_step in "01":
        assert on_gpu(rest, CUDA_VISIBLE_DEVICES=of_step)[1].endswith("\n0,1")


@pytest.mark.parametrize(
    ("arguments", "group"),
    [
        (["--target-jobs", "a:seed=0", "b:seed=1", "--executor", "slurm-jobstep"], True),
        (["--executor", "slurm-jobstep", "--target-jobs", "a:seed=0", "b:seed=1"], True),
        (["--target-jobs", "a:seed=0", "--cores", "all", "--executor", "slurm-jobstep"], False),
        (["--executor", "slurm-jobstep"], False),
        (["--target-jobs", "a:seed=0", "b:seed=1", "--executor", "slurm"], False),
        (["--cores", "2"], False),
    ],
)
def test_only_a_group_within_a_slurm_job_has_its_server_started_before_its_steps(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], group: bool
) -> None:
    started: list[str] = []
    for name in ("ANCHORFLOW_SERVES_STEPS", ALONE):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv(RUN, str(os.getpid()))
    monkeypatch.setattr(fork_server, "_start", started.append)
    monkeypatch.setattr(sys, "argv", ["snakemake", *arguments])
    fork_server.serve_group()
    assert started == [str(os.getpid())] * group
    assert bool(os.environ["ANCHORFLOW_SERVES_STEPS"]) is group
    monkeypatch.setenv(ALONE, "1")
    fork_server.serve_group()
    assert len(started) == group


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
