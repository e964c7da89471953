"""One log per job: the same lines on the console and in the rule's log file."""

import contextlib
import errno
import logging
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from anchorflow.errors import MORE_MEMORY, InputError, is_out_of_memory


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
def job_log(path: str) -> Iterator[None]:
    """Send standard error, logging and progress bars to ``path`` as well as to the console.

    An :class:`InputError`, a full disk or full memory ends the process with its one sentence; any
    other exception is a defect, so its traceback stays visible in both places.
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
                yield
            except InputError as error:
                sentence = str(error)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    traceback.print_exc()
                    raise SystemExit(1) from None
                sentence = (
                    f"{error.filename or 'results'}: no space left on the device; "
                    "free some space and run again, finished artifacts are kept."
                )
            except Exception as error:
                if not is_out_of_memory(error):
                    traceback.print_exc()
                    raise SystemExit(1) from None
                reason = (str(error).strip() or type(error).__name__).splitlines()[0]
                sentence = f"memory ran out ({reason}); {MORE_MEMORY}."
            if sentence is not None:
                print(f"ERROR: {sentence}", file=sys.stderr)
                sys.stderr.flush()
                raise SystemExit(1)
