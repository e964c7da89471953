"""Job logs: the same lines on the console and in the rule's log file, and how a job fails."""

import contextlib
import hashlib
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from anchorflow.config.errors import (
    MORE_MEMORY,
    InputError,
    disk_is_full,
    full_disk_sentence,
    is_out_of_memory,
)

_SMALL = 2**20  # bytes; inputs up to this size are compared by content


class _Tee:
    """A text stream that writes to the console and, while the disk has space, to the log file."""

    def __init__(self, console: TextIO, file: TextIO) -> None:
        self._console, self._file = console, file

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._file.write(text)
        return self._console.write(text)

    def flush(self) -> None:
        self._console.flush()
        with contextlib.suppress(OSError):
            self._file.flush()

    def isatty(self) -> bool:
        return self._console.isatty()


@contextlib.contextmanager
def _log_file(path: str) -> Iterator[TextIO]:
    """A log file that loses its last lines if the disk is full, so that the error stays visible."""
    file = open(path, "w", encoding="utf-8")  # noqa: SIM115
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.close()


@contextlib.contextmanager
def unchanged(inputs: Iterable[str]) -> Iterator[None]:
    """Reject the block's result if an input changes while it runs.

    The result would come from the old input but be newer than the new one, so it would never be
    rebuilt.
    """
    before = {path: _stamp(Path(path)) for path in inputs}
    yield
    for path, stamp in before.items():
        if _stamp(Path(path)) != stamp:
            raise InputError(
                f"{path}: changed while a job that depends on it was running; run again, so that "
                "the job reads the new one."
            )


def _stamp(path: Path) -> object:
    """A value that changes with a file: its digest if it is small, size and time otherwise."""
    try:
        status = path.stat()
        if path.is_file() and status.st_size <= _SMALL:
            return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


@contextlib.contextmanager
def job_log(path: str, inputs: Iterable[str] = ()) -> Iterator[None]:
    """Send standard error, logging and progress bars to ``path`` as well as to the console.

    An :class:`InputError`, a full disk, exhausted memory or an input that changes while the job
    runs ends the process with one sentence; any other exception is a bug, so its traceback is
    printed in both places.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with _log_file(path) as file:
        console = sys.stderr
        with contextlib.redirect_stderr(_Tee(console, file)):
            logging.basicConfig(
                stream=sys.stderr, level=logging.INFO, format="%(message)s", force=True
            )
            logging.getLogger("httpx").setLevel(logging.WARNING)  # or it logs every download's URL
            sentence = None
            try:
                with unchanged(inputs):
                    yield
            except InputError as error:
                sentence = str(error)
            except Exception as error:
                if disk_is_full(error):
                    sentence = full_disk_sentence(getattr(error, "filename", None) or "results")
                elif is_out_of_memory(error):
                    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                    sentence = f"memory ran out ({reason}); {MORE_MEMORY}."
                else:
                    traceback.print_exc()
                    raise SystemExit(1) from None
            if sentence is not None:
                # In one piece, so that lines of jobs that fail together do not mix.
                sys.stderr.write(f"ERROR: {sentence}\n")
                sys.stderr.flush()
                raise SystemExit(1)
