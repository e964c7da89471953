"""Run the jobs of a run as forks of one process that has imported what they import.

Importing torch and transformers takes longer than most jobs do. So the first job of a run starts a
server, which imports what a job needs the first time that one needs it, and forks. The fork runs
the job's script; the script's own process, the client, only waits for it and ends as it does.

Nothing else changes: a fork has its job's standard streams, environment and folder; it ends when
its client, the server, or Snakemake does, and the server ends with Snakemake. The server keeps
other packages' modules and the tokenizers that jobs read; this package's modules are imported anew
by every job. It never computes, so it has no threads, and no GPU is in use when it forks. Where it
can't be (not on Linux, or without Snakemake's process in sight), jobs import for themselves.

Forks share weights that are mapped into memory, but not what one of them has copied to a GPU. So a
fork that has done a job with a model on a GPU waits for another one and does it as well, and the
weights of a model are copied once. It gives up those of others when a job has no room beside them.
A job that fails ends it, and so does one that wants a GPU for something else than a model.
"""

import contextlib
import ctypes
import errno
import gc
import hashlib
import importlib
import itertools
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anchorflow.config import import_path
from anchorflow.config.code import tracked
from anchorflow.config.import_path import ALONE, RUN
from anchorflow.store import opened

_PACKAGE = Path(__file__).parents[1]
_ALWAYS = ("anchorflow.store.job", "snakemake.iocontainers", "snakemake.logging")
_PATIENCE = 10.0  # seconds until a server that was started answers
_PATIENCE_IN_STEP = 2.0
_PARENT_DEATH, _NAME = 1, 15  # PR_SET_PDEATHSIG, PR_SET_NAME
# What keeps libraries from starting threads in the server, those of allocators included, and from
# asking a GPU's driver whether it is there, which would then be of no use to forks.
_BEFORE_FORKS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": "background_thread:false",  # polars
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# Which GPUs there are. Forks see those of the server: of a SLURM job, not of one of its steps.
_GPUS = (
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
)
_IDLE = ("polars-ooc-clea",)  # threads that wait for what happens only where polars computes


def continue_in_fork(snakemake: Any) -> None:
    """Run the rest of a script in a fork of the run's server, and end this process as it ends.

    Returns at once in the fork, and where there is none.

    Parameters
    ----------
    snakemake
        What Snakemake gives a script.
    """
    run = os.environ.get(RUN)
    if run is None or os.environ.get(ALONE) or not hasattr(os, "pidfd_open"):
        return
    connection = _connection(run)
    if connection is None:
        return
    with connection:
        request = {
            "script": sys.argv[0],
            "arguments": sys.argv,
            "folder": os.getcwd(),
            "environment": {k: v for k, v in os.environ.items() if k not in (RUN, *_GPUS)},
            "path": sys.path,
            "modules": sorted(_modules(tracked(snakemake.params))),
            "tokenizer": snakemake.input.get("tokenizer"),
            "on_gpu": _on_gpu(snakemake.input, snakemake.params),
        }
        text = json.dumps(request).encode() + b"\n"
        with connection.makefile("r") as replies:
            try:
                sent = socket.send_fds(connection, [text], [0, 1, 2])
                connection.sendall(text[sent:])
                fork = replies.readline().strip()
            except OSError:
                return
            if fork:
                _end_as(_wait(replies, int(fork)))


def _modules(files: Iterable[Path]) -> set[str]:
    """Names of the package's modules among a job's code, and of those that all jobs import."""
    own = (file.relative_to(_PACKAGE) for file in files if file.is_relative_to(_PACKAGE))
    parts = (file.with_suffix("").parts for file in own if file.suffix == ".py")
    return {*_ALWAYS, *(".".join((_PACKAGE.name, *names)) for names in parts)}


def serve_group() -> None:
    """Start the server for a group of jobs if each will be a step of this one SLURM job.

    A server that a step starts would end with it.
    """
    if not os.environ.get(ALONE) and hasattr(os, "pidfd_open") and _runs_group(sys.argv):
        import_path.serve_steps()
        _start(os.environ[RUN])


def _runs_group(arguments: Sequence[str]) -> bool:
    """Whether Snakemake has been started in a SLURM job to run several of ours."""
    if "slurm-jobstep" not in arguments or "--target-jobs" not in arguments:
        return False
    jobs = itertools.takewhile(
        lambda each: not each.startswith("--"),
        arguments[arguments.index("--target-jobs") + 1 :],
    )
    return len(list(jobs)) > 1


def _on_gpu(files: Any, params: Any) -> list[str] | None:
    """The model that a job may open on a GPU, "" for another use of it, and the wished device.

    None if it uses none.
    """
    compute = params.get("compute")
    if compute is None or not opened.stays_open(compute.device):
        return None
    return [str(files.get("model", "")), compute.device]


def _wait(replies: Any, fork: int) -> int:
    """How a fork ended: its exit status, or the number of a signal, negative."""
    while True:
        try:
            return int(replies.readline())
        except KeyboardInterrupt:
            with contextlib.suppress(ProcessLookupError):
                os.kill(fork, signal.SIGINT)
        except ValueError:  # the server is gone, and so is the fork
            return -signal.SIGKILL


def _end_as(status: int) -> None:
    """End this process by the same status or signal, without a traceback."""
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP have no handlers
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _connection(run: str) -> socket.socket | None:
    """A connection to the run's server, which is started if there is none; None if that fails."""
    server, served = None, import_path.in_served_step()
    until = time.monotonic() + (_PATIENCE_IN_STEP if served else _PATIENCE)
    while time.monotonic() < until:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(_address(run))
        except OSError:
            connection.close()
        else:
            if _user(connection) == os.getuid():
                return connection
            connection.close()
            return None
        if served:
            pass  # it has been started, or can't be reached from here
        elif server is None:
            server = _start(run)
        elif server.poll() not in (None, 0):
            return None
        time.sleep(0.02)
    return None


def _address(run: str) -> str:
    """A name that no file has, so that nothing is left behind.

    It is another one for another run, user, Python, copy of this package, or container.
    """
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "pid")]
    of = (run, os.getuid(), sys.executable, str(_PACKAGE.resolve()), *spaces)
    return f"\0{_PACKAGE.name}-{hashlib.sha256(repr(of).encode()).hexdigest()[:32]}"


def _user(connection: socket.socket) -> int:
    """Who is on the other side, since names like ours are anybody's to take."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[1])


def _start(run: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__, run],
        env=os.environ | _BEFORE_FORKS,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@dataclass(eq=False)
class _Fork:
    """A process that does a job for a client, or waits for a further one."""

    process: int
    ending: int  # a descriptor that can be read when it has ended
    on_gpu: list[str] | None
    line: socket.socket  # by which it says that it waits, and is given a further job
    client: socket.socket | None = None
    waits: bool = False


class _Server:
    """Forks for clients until the process of the run ends."""

    def __init__(self, run: int) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(_address(str(run)))  # fails if there is a server already
        self._run = os.pidfd_open(run)
        self._listener.listen(128)
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(self._listener, selectors.EVENT_READ)
        self._waiting.register(self._run, selectors.EVENT_READ)
        self._forks: list[_Fork] = []
        self._imported: set[str] = set()

    def serve(self) -> tuple[dict[str, Any], socket.socket] | None:
        """In a fork, return what to run, and its line; in the server, None after the run."""
        while True:
            for key, _ in self._waiting.select():
                if key.fd == self._run:
                    return None
                if key.fileobj is self._listener:
                    given = self._accept()
                    if given is not None:
                        return given
                elif key.data in self._forks:  # not one that has ended meanwhile
                    self._heed(key.data, key.fileobj)

    def _heed(self, fork: _Fork, what: Any) -> None:
        """Act on the end of a fork, its word that it waits, or the end of its client."""
        if what == fork.ending:
            self._end(fork)
        elif what is fork.line:
            said = b""
            with contextlib.suppress(OSError):
                said = fork.line.recv(1)
            fork.waits = bool(said)
            if fork.waits:
                self._report(fork, 0)
            else:  # it is about to end
                self._waiting.unregister(fork.line)
        elif what is fork.client:  # gone, or it would be silent
            os.kill(fork.process, signal.SIGTERM)
            self._leave(fork, fork.client)
            fork.on_gpu = None  # no further job for this one

    def _accept(self) -> tuple[dict[str, Any], socket.socket] | None:
        """Have a client's job done; in a new fork, returns its request."""
        client, _ = self._listener.accept()
        if _user(client) != os.getuid():
            client.close()
            return None
        fork, streams = None, list[int]()
        try:
            text, streams = _receive(client)
            request: dict[str, Any] = json.loads(text)
            fork = self._go_on(request["on_gpu"], text, streams) or self._fork(request)
        except (OSError, ValueError):
            pass
        if fork is not None and fork.process == 0:
            client.close()
            _take(streams)
            return request, fork.line
        for stream in streams:
            os.close(stream)
        if fork is None:
            client.close()
            return None
        fork.client = client
        self._waiting.register(client, selectors.EVENT_READ, fork)
        with contextlib.suppress(OSError):  # whether it is gone is heeded later
            client.sendall(f"{fork.process}\n".encode())
        return None

    def _fork(self, request: Mapping[str, Any]) -> _Fork | None:
        """A new fork with all that a job imports, 0 as its process in itself; None if none may."""
        _import_libraries(set(request["modules"]) - self._imported)
        self._imported.update(request["modules"])
        if request["tokenizer"] is not None:
            _open_tokenizer(Path(request["folder"], request["tokenizer"]))
        if not _may_fork():
            return None
        line, own = socket.socketpair()
        process = os.fork()
        if process == 0:
            self._close()
            line.close()
            return _Fork(0, -1, None, own)
        own.close()
        try:
            fork = _Fork(process, os.pidfd_open(process), request["on_gpu"], line)
        except OSError:  # nobody could wait for it, so its job must not be done
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            line.close()
            raise
        self._forks.append(fork)
        self._waiting.register(fork.ending, selectors.EVENT_READ, fork)
        self._waiting.register(fork.line, selectors.EVENT_READ, fork)
        return fork

    def _go_on(self, on_gpu: list[str] | None, text: bytes, streams: list[int]) -> _Fork | None:
        """Give a job to a fork that waits, or end all that do if they are in its way."""
        if on_gpu is None:
            return None
        waiting = sorted((f for f in self._forks if f.waits), key=lambda f: f.on_gpu != on_gpu)
        model, wish = on_gpu
        for fork in waiting:
            if model and fork.on_gpu and fork.on_gpu[1] == wish:
                with contextlib.suppress(OSError):  # it has been killed
                    sent = socket.send_fds(fork.line, [text], streams)
                    fork.line.sendall(text[sent:])
                    fork.on_gpu, fork.waits = on_gpu, False
                    return fork
        for fork in waiting:
            os.kill(fork.process, signal.SIGKILL)  # it has nothing left to do
            self._end(fork)
        return None

    def _end(self, fork: _Fork) -> None:
        """Tell a client how its fork has ended, or wait until one without a client has."""
        status = os.waitstatus_to_exitcode(os.waitpid(fork.process, 0)[1])
        self._forks.remove(fork)
        self._report(fork, status)
        self._waiting.unregister(fork.ending)
        os.close(fork.ending)
        with contextlib.suppress(KeyError):
            self._waiting.unregister(fork.line)
        fork.line.close()

    def _report(self, fork: _Fork, status: int) -> None:
        """Tell a client how its job has ended."""
        if fork.client is not None:
            with contextlib.suppress(OSError):
                fork.client.sendall(f"{status}\n".encode())
            self._leave(fork, fork.client)

    def _leave(self, fork: _Fork, client: socket.socket) -> None:
        self._waiting.unregister(client)
        client.close()
        fork.client = None

    def _close(self) -> None:
        """Leave the server's connections and processes to the server."""
        self._waiting.close()
        self._listener.close()
        os.close(self._run)
        for fork in self._forks:
            os.close(fork.ending)
            fork.line.close()
            if fork.client is not None:
                fork.client.close()


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """One line of text, and the streams that come with it; b"" if there is none."""
    text, streams, _, _ = socket.recv_fds(connection, 2**20, 3)
    try:
        while text and not text.endswith(b"\n"):
            more = connection.recv(2**20)
            text = text + more if more else b""
    except OSError:
        text = b""
    if not text:
        for stream in streams:
            os.close(stream)
        return text, []
    return text, streams


def _take(streams: Iterable[int]) -> None:
    """Make these the standard streams."""
    for stream, given in enumerate(streams):
        os.dup2(given, stream)
        os.close(given)


def _import_libraries(modules: set[str]) -> None:
    """Import modules of this package and forget them again; what they have imported stays."""
    if not modules:
        return
    for module in modules:
        with contextlib.suppress(BaseException):  # the job itself says what is wrong
            importlib.import_module(module)
    _forget()
    gc.freeze()


def _forget() -> None:
    """Forget this package's modules, so that they are imported anew."""
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE.name]:
        if name != opened.__name__:
            del sys.modules[name]
    gc.collect()


def _open_tokenizer(folder: Path) -> None:
    with contextlib.suppress(Exception):  # the job itself says what is wrong
        opened.open_once(folder / opened.TOKENIZER)


def _may_fork() -> bool:
    """Whether no other thread works in the server, and no GPU has been opened.

    A fork has only the thread that forks, and can't use a GPU that was in use before.
    """
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return sum(name not in _IDLE for name in names) == 1 and not _opened("/dev/nvidia")


def _opened(device: str) -> bool:
    """Whether the process has opened a device of which this is the beginning of the path."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # that of the folder itself
            if os.readlink(descriptor).startswith(device):
                return True
    return False


def _work(request: Mapping[str, Any], line: socket.socket) -> None:
    """Do a job, and further ones for as long as the model that they use stays open.

    Whatever fails ends the process. What it has set in its environment stays, as for CUDA.
    """
    gpus = {name: os.environ[name] for name in _GPUS if name in os.environ}
    os.environ.clear()
    os.environ.update(gpus)
    while True:
        _run_script(request)
        if not opened.keeps_models():
            return
        text, streams = _wait_for_more(line)
        if not text:
            return
        _take(streams)
        for name in request["environment"]:
            os.environ.pop(name, None)
        request = json.loads(text)
        opened.before = opened.Usage.now()
        with contextlib.suppress(OSError):  # lets the kernel measure the largest memory anew
            Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _wait_for_more(line: socket.socket) -> tuple[bytes, list[int]]:
    """Leave a job's streams, code and spare memory, and wait for a request."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    ctypes.CDLL(None).fflush(None)  # what libraries have written, before Python's own
    for stream, file in enumerate((None, sys.stdout, sys.stderr)):
        if file is not None:
            file.flush()
        os.dup2(nowhere, stream)
    os.close(nowhere)
    _forget()
    with warnings.catch_warnings():  # lets those be given again that were given once
        pass
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()
    line.sendall(b"w")
    return _receive(line)


def _run_script(request: Mapping[str, Any]) -> None:
    """Become a job: its name, folder, environment, arguments, import path and threads."""
    name = Path(request["script"]).stem.rpartition(".")[2]
    ctypes.CDLL(None).prctl(_NAME, name.encode())  # for top
    os.chdir(request["folder"])
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # may be another one in this environment
    sys.argv, sys.path[:] = request["arguments"], request["path"]
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    if threads > 1 or opened.before is not None:
        _limit_threads(threads)
    runpy.run_path(request["script"], run_name="__main__")


def _limit_threads(threads: int) -> None:
    """As the environment would have, had libraries been imported in it."""
    from threadpoolctl import threadpool_limits  # which clients need not import

    threadpool_limits(threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def main(run: int) -> None:
    """Serve the run with this process id until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        server, process = _Server(run), os.getpid()
    except OSError as error:
        sys.exit(error.errno != errno.EADDRINUSE)  # another one was faster
    given = server.serve()
    if given is not None:
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
        if os.getppid() != process:
            os._exit(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _work(*given)


if __name__ == "__main__":
    main(int(sys.argv[1]))
