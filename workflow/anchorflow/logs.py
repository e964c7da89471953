"""One log per job: the same lines on the console and in the rule's log file, and how it ends."""

import contextlib
import hashlib
import logging
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from anchorflow.errors import (
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
    """A file whose last lines are given up if the disk is full, so that the reason stays seen."""
    file = open(path, "w", encoding="utf-8")  # noqa: SIM115
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.close()


@contextlib.contextmanager
def unchanged(inputs: Iterable[str]) -> Iterator[None]:
    """Refuse what the block makes if an input is changed meanwhile.

    The result would be of the old input and newer than the new one, so that nothing would ever
    rebuild it.

    Raises
    ------
    InputError
        After the block, naming the input.
    """
    before = {path: _stamp(Path(path)) for path in inputs}
    yield
    for path, stamp in before.items():
        if _stamp(Path(path)) != stamp:
            raise InputError(
                f"{path}: changed while a job was running that depends on it; run again, so that "
                "the job sees the new one."
            )


def _stamp(path: Path) -> object:
    """What changes when a file does: the contents if it is small, size and time otherwise."""
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

    An :class:`InputError`, a full disk, full memory or an input that changes meanwhile ends the
    process with its one sentence; any other exception is a defect, so its traceback stays visible
    in both places.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with _log_file(path) as file:
        console = sys.stderr
        with contextlib.redirect_stderr(_Tee(console, file)):
            logging.basicConfig(
                stream=sys.stderr, level=logging.INFO, format="%(message)s", force=True
            )
            logging.getLogger("httpx").setLevel(logging.WARNING)
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
                print(f"ERROR: {sentence}", file=sys.stderr)
                sys.stderr.flush()
                raise SystemExit(1)
