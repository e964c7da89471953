"""Run the jobs of a run as forks of one process that has imported what they import.

Importing torch and transformers takes longer than most jobs do. So the first job of a run starts a
server, which imports what a job needs the first time that one needs it, and forks. The fork runs
the job's script; the script's own process, the client, only waits for it and ends as it does.

Nothing else changes: a fork has its job's standard streams, environment and folder; it ends when
its client, the server, or Snakemake does, and the server ends with Snakemake. The server keeps
other packages' modules and the tokenizers that jobs read; this package's modules are imported anew
by every job. It never computes, so it has no threads, and no GPU is in use when it forks. Where it
can't be (not on Linux, or without Snakemake's process in sight), jobs import for themselves.
"""

import contextlib
import ctypes
import errno
import gc
import hashlib
import importlib
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
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anchorflow.config.code import tracked
from anchorflow.config.import_path import ALONE, RUN
from anchorflow.store import opened

_PACKAGE = Path(__file__).parents[1]
_ALWAYS = ("anchorflow.store.job", "snakemake.iocontainers", "snakemake.logging")
_PATIENCE = 10.0  # seconds until a server that was started answers
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
            "environment": {k: v for k, v in os.environ.items() if k != RUN},
            "path": sys.path,
            "modules": sorted(_modules(tracked(snakemake.params))),
            "tokenizer": snakemake.input.get("tokenizer"),
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
    server, until = None, time.monotonic() + _PATIENCE
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
        if server is None:
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
        self._forks: dict[int, tuple[int, socket.socket]] = {}  # by the descriptor of their process
        self._imported: set[str] = set()
        self._clients: dict[int, int] = {}  # processes of forks by the descriptors of connections

    def serve(self) -> dict[str, Any] | None:
        """In a fork, return what to run; in the server, None when the run has ended."""
        while True:
            for key, _ in self._waiting.select():
                if key.fd == self._run:
                    return None
                if key.fileobj is self._listener:
                    request = self._accept()
                    if request is not None:
                        return request
                elif key.fd in self._forks:
                    self._report(key.fd)
                elif key.fd in self._clients:  # gone, or it would be silent
                    os.kill(self._clients[key.fd], signal.SIGTERM)
                    self._waiting.unregister(key.fileobj)
                    del self._clients[key.fd]

    def _accept(self) -> dict[str, Any] | None:
        """Fork for a client; returns its request in the fork."""
        client, _ = self._listener.accept()
        if _user(client) != os.getuid():
            client.close()
            return None
        try:
            text, streams, _, _ = socket.recv_fds(client, 2**20, 3)
            while text and not text.endswith(b"\n"):
                more = client.recv(2**20)
                text = text + more if more else b""
            request: dict[str, Any] = json.loads(text)
            _import_libraries(set(request["modules"]) - self._imported)
            self._imported.update(request["modules"])
            if request["tokenizer"] is not None:
                _open_tokenizer(Path(request["folder"], request["tokenizer"]))
            process = os.fork() if _may_fork() else None
        except (OSError, ValueError):
            process = None
        if process == 0:
            self._close()
            client.close()
            for stream, given in enumerate(streams):
                os.dup2(given, stream)
                os.close(given)
            return request
        for given in streams:
            os.close(given)
        if process is None:
            client.close()
            return None
        fork = os.pidfd_open(process)
        self._forks[fork] = process, client
        self._clients[client.fileno()] = process
        self._waiting.register(fork, selectors.EVENT_READ)
        self._waiting.register(client, selectors.EVENT_READ)
        client.sendall(f"{process}\n".encode())
        return None

    def _report(self, fork: int) -> None:
        """Tell a client how its fork has ended."""
        process, client = self._forks.pop(fork)
        self._waiting.unregister(fork)
        os.close(fork)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if self._clients.pop(client.fileno(), None) is not None:
            self._waiting.unregister(client)
            with contextlib.suppress(OSError):
                client.sendall(f"{status}\n".encode())
        client.close()

    def _close(self) -> None:
        """Leave the server's connections and processes to the server."""
        self._waiting.close()
        self._listener.close()
        os.close(self._run)
        for fork, (_, client) in self._forks.items():
            os.close(fork)
            client.close()


def _import_libraries(modules: set[str]) -> None:
    """Import modules of this package and forget them again; what they have imported stays."""
    if not modules:
        return
    for module in modules:
        with contextlib.suppress(BaseException):  # the job itself says what is wrong
            importlib.import_module(module)
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE.name]:
        if name != opened.__name__:
            del sys.modules[name]
    gc.collect()
    gc.freeze()


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


def _run_script(request: dict[str, Any]) -> None:
    """Become a job: its folder, environment, arguments, import path and threads."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # may be another one in this environment
    sys.argv, sys.path[:] = request["arguments"], request["path"]
    _limit_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    runpy.run_path(request["script"], run_name="__main__")


def _limit_threads(threads: int) -> None:
    """As the environment would have, had libraries been imported in it."""
    if threads > 1:
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
    request = server.serve()
    if request is not None:
        library = ctypes.CDLL(None)
        library.prctl(_PARENT_DEATH, signal.SIGKILL)
        library.prctl(_NAME, Path(request["script"]).stem.rpartition(".")[2].encode())  # for top
        if os.getppid() != process:
            os._exit(1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _run_script(request)


if __name__ == "__main__":
    main(int(sys.argv[1]))
