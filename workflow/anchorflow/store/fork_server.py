"""Run the jobs of a run as forks of one process that has imported what they import.

Importing torch and transformers takes longer than most jobs. The first job of a run therefore
starts a server, which imports what a job needs when the first one needs it, and forks. The fork
runs the job's script; the script's own process, the client, only waits for it and ends as it does.

Nothing else changes: a fork has its job's standard streams, environment and folder; it ends when
its client, the server, or Snakemake does, and the server ends with Snakemake. The server keeps
other packages' modules and the tokenizers that jobs read; every job imports this package's modules
anew. The server never computes, so it has no threads, and no GPU is in use when it forks. Where
there can be none (not on Linux, or if Snakemake's process is not visible), every job imports for
itself.
"""

import contextlib
import ctypes
import gc
import hashlib
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from anchorflow.config.digests import tracked
from anchorflow.config.job_environment import ALONE, RUN
from anchorflow.config.places import PACKAGE
from anchorflow.config.registry import module_at, others, place_of

_TOKENIZERS = "anchorflow.store.shared_tokenizer"
_ALWAYS = ("anchorflow.store.job", "snakemake.iocontainers", "snakemake.logging")
_PARENT_DEATH = 1  # PR_SET_PDEATHSIG
_THREADS = 2  # that may be there at a fork: the one that forks, and an idle one of polars
# Keeps libraries and their allocators from starting threads in the server, and torch from asking a
# GPU's driver whether there is one, after which forks could not use it.
BEFORE_FORKS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "_RJEM_MALLOC_CONF": "background_thread:false",  # polars
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # pyarrow
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def continue_in_fork(snakemake: Any) -> None:
    """Run the rest of a script in a fork of the run's server, and end this process as it ends.

    ``snakemake`` is the object that Snakemake passes to a script. A script calls this before its
    other imports, so that the client does without them. Returns at once in the fork, and where
    there is no server.
    """
    run = os.environ.get(RUN)
    if run is None or os.environ.get(ALONE) or not hasattr(os, "pidfd_open"):
        return
    request = {
        "arguments": sys.argv,
        "folder": os.getcwd(),
        "environment": {name: value for name, value in os.environ.items() if name != RUN},
        "path": sys.path,
        "modules": _modules(tracked(snakemake.params)),
        "tokenizer": snakemake.input.get("tokenizer") or None,  # [] where a rule needs none
    }
    with contextlib.suppress(OSError):  # there is a server already
        _start(run)
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as server:
        server.connect(address(run))
        if _user(server) != os.getuid():
            return
        socket.send_fds(server, [b"\n"], [0, 1, 2])
        server.sendall(json.dumps(request).encode() + b"\n")
        with server.makefile("r") as replies:
            fork = replies.readline()
            if fork:
                _end_with(int(fork), replies)


def _modules(files: Collection[Path]) -> list[str]:
    """Names of the package's modules among a job's code, and of those that all jobs import."""
    places = (place_of(file) for file in files if file.suffix == ".py")
    return [*_ALWAYS, *(module_at(place) for place in places if place)]


def _end_with(fork: int, replies: Any) -> None:
    """End this process by the status or signal by which a fork ends, without a traceback."""
    status = None
    while status is None:
        try:
            status = int(replies.readline())
        except KeyboardInterrupt:
            with contextlib.suppress(ProcessLookupError):
                os.kill(fork, signal.SIGINT)
        except (OSError, ValueError):  # the server is gone, and so is the fork
            status = -signal.SIGKILL
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL and SIGSTOP have no handlers
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def address(run: str) -> str:
    """An abstract address of a socket, which leaves no file behind.

    It differs between runs, users, Pythons, copies of this package, and containers.
    """
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "pid")]
    of = (run, os.getuid(), sys.executable, str(PACKAGE.resolve()), *spaces)
    return f"\0{PACKAGE.name}-{hashlib.sha256(repr(of).encode()).hexdigest()[:32]}"


def _user(connection: socket.socket) -> int:
    """The user on the other side, since any user may take an abstract address."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", credentials)[1])


def _start(run: str) -> None:
    """Start the server of a run; raises OSError if there is one."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address(run))
        listener.listen(128)
        subprocess.Popen(  # -P: modules in the run's folder must not shadow libraries
            [sys.executable, "-P", "-m", __name__, str(listener.fileno()), run],
            env=os.environ | BEFORE_FORKS,
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def serve(listener: socket.socket, run: int) -> None:
    """In the server, returns when the process with this id has ended; in a fork, after its job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # which is inherited
    job = _next_job(listener, os.pidfd_open(run))
    if job is not None:
        _work(*job)


def _next_job(listener: socket.socket, ended: int) -> tuple[dict[str, Any], list[int]] | None:
    """In a fork, its job and its streams; in the server, None after the run."""
    events: list[Any] = [listener, ended]
    imported: set[str] = set()
    while ended not in select.select(events, [], [])[0]:
        client, _ = listener.accept()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # so that ended forks leave nothing behind
                pass
        with client, contextlib.suppress(OSError, ValueError):  # the client is gone
            if _user(client) != os.getuid():
                continue
            _, streams, _, _ = socket.recv_fds(client, 1, 3)
            try:
                with client.makefile("r") as text:
                    request: dict[str, Any] = json.loads(text.readline())
                _import_libraries(set(request["modules"]) - imported)
                imported.update(request["modules"])
                if request["tokenizer"] is not None:
                    with contextlib.suppress(Exception):  # the job itself reports what is wrong
                        path = Path(request["folder"], request["tokenizer"], "tokenizer.json")
                        importlib.import_module(_TOKENIZERS).read_tokenizer(path)
                if len(os.listdir("/proc/self/task")) > _THREADS:
                    continue  # a fork could wait for a lock of a thread that it lacks
                if _fork() == 0:
                    _fork_and_watch(client)
                    return request, [os.dup(stream) for stream in streams]
            finally:
                for stream in streams:
                    os.close(stream)
    return None


def _import_libraries(modules: Collection[str]) -> None:
    """Import modules, and forget those of packages with analyses; what they imported stays."""
    for module in modules:
        with contextlib.suppress(BaseException):  # the job itself reports what is wrong
            importlib.import_module(module)
    if modules:
        ours = {PACKAGE.name, *others()}
        for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
            if name != _TOKENIZERS:
                del sys.modules[name]
        gc.collect()
        gc.freeze()  # so that collections in forks do not write to, and copy, shared pages


def _fork() -> int:
    """As ``os.fork``, but the fork ends when its parent does."""
    parent, process = os.getpid(), os.fork()
    if process == 0:
        ctypes.CDLL(None).prctl(_PARENT_DEATH, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
    return process


def _fork_and_watch(client: socket.socket) -> None:
    """Return in a fork of this process, which reports to the client how the fork ends, and exits.

    If the client ends first, the fork is terminated.
    """
    with contextlib.suppress(OSError):  # the client is gone, or there is no room for a fork
        process = _fork()
        if process == 0:
            return
        client.sendall(f"{process}\n".encode())
        events: list[Any] = [client, os.pidfd_open(process)]
        if select.select(events, [], [])[0] == [client]:  # it is gone: a live one sends nothing
            os.kill(process, signal.SIGTERM)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        client.sendall(f"{status}\n".encode())
    os._exit(0)


def _work(request: Mapping[str, Any], streams: Collection[int]) -> None:
    """Become a job: its streams, folder, environment, arguments, import path and threads."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream, given in enumerate(streams):
        os.dup2(given, stream)
        os.close(given)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # may be another one in this environment
    sys.argv, sys.path[:] = request["arguments"], request["path"]
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    if threads > 1:  # libraries read the variable at import, in the server's environment
        from threadpoolctl import threadpool_limits  # which clients need not import

        threadpool_limits(threads)
        if "torch" in sys.modules:
            sys.modules["torch"].set_num_threads(threads)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
