"""What reading files of code has found out, remembered by their contents from run to run.

Parsing all modules takes seconds, which every start of Snakemake and every job would spend anew.
What is remembered is of a file's contents, of the names of all files that imports can lead to, and
of the code that reads them; if any of these is another, it is found out again.
"""

import atexit
import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_FILE = "anchorflow_code.json"
_MOST = 20_000  # entries; beyond, only those that were of use last time are kept


class Known:
    """Findings of earlier runs, of one set of files and one way to read them.

    Parameters
    ----------
    folder : Path
        Where they are kept; nothing is kept where there is no such folder.
    readers : iterable of Path
        Code that reads files.
    files : function
        Files whose names imports can mean, as they are when it is called.
    """

    def __init__(
        self, folder: Path, readers: Iterable[Path], files: Callable[[], Iterable[Path]]
    ) -> None:
        self._path = folder.absolute() / _FILE  # Snakemake works elsewhere when it ends
        self._reading = [sys.version, *(path.read_text(encoding="utf-8") for path in readers)]
        self._files = files
        self._state = self._now()
        self._found: dict[str, Any] = self._load()
        self._used: set[str] = set()
        self._more = False

    def _now(self) -> str:
        return _hash("\n".join((*self._reading, *sorted(map(str, self._files())))).encode())

    def _load(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            kept = json.loads(self._path.read_bytes())
            if kept["state"] == self._state and isinstance(kept["found"], dict):
                return dict(kept["found"])
        return {}

    def get(self, content: bytes, what: str, find: Callable[[], Any]) -> Any:
        """What ``find`` returns, which JSON can hold, of a file.

        Parameters
        ----------
        content : bytes
            The file's, of which ``find`` makes what it returns.
        what : str
            Identifies what is found out, and the file by its place in the project.
        """
        key = f"{what} {_hash(content)}"
        if key not in self._found:
            self._found[key] = find()
            self._more = True
        self._used.add(key)
        return self._found[key]

    def keep_at_exit(self) -> None:
        """Keep what is found out until this process ends, for the next one."""
        atexit.register(self.keep)

    def keep(self) -> None:
        """Keep what is new; where that can't be written, the next run finds it out again.

        So it does if files have come or gone since, which imports may have meant.
        """
        if not self._more or not self._path.parent.is_dir() or self._now() != self._state:
            return
        crowded = len(self._found) > _MOST
        found = {k: v for k, v in self._found.items() if not crowded or k in self._used}
        with contextlib.suppress(OSError):
            descriptor, name = tempfile.mkstemp(prefix=f".{_FILE}.", dir=self._path.parent)
            try:
                with open(descriptor, "w", encoding="utf-8") as file:
                    json.dump({"state": self._state, "found": found}, file)
                os.replace(name, self._path)
            except OSError:
                os.unlink(name)
        self._more = False


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:24]
