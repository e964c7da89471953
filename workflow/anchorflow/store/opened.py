"""Tokenizers that the server of forks has opened, which jobs then find in their memory.

Reading the words and merges of one takes longer than many a job does. This is the one module of the
package that the server does not forget before it forks.
"""

from pathlib import Path
from typing import Any

TOKENIZER = "tokenizer.json"
MOST = 4  # of this many models at a time; each takes about 0.3 GB where words are many

_State = tuple[str, int, int, int]
_opened: dict[_State, Any] = {}


def open_once(path: Path) -> None:
    """Open a tokenizer, unless it is open as it is now; the oldest one makes room.

    Raises
    ------
    Exception
        What the library raises if it can't be read.
    """
    from tokenizers import Tokenizer

    state = _state(path)
    if state not in _opened:
        if len(_opened) >= MOST:
            del _opened[next(iter(_opened))]
        _opened[state] = Tokenizer.from_file(str(path))


def opened(path: Path) -> Any:
    """The open tokenizer of a file, None if there is none or the file is not what it was."""
    return _opened.get(_state(path))


def _state(path: Path) -> _State:
    """What changes when a file does."""
    found = path.stat()
    return str(path.resolve()), found.st_ino, found.st_size, found.st_mtime_ns
