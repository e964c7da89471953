"""Tokenizers that the process has read of which jobs are forks, as their files are now.

Reading one of 262,000 words takes a second, longer than many a job that needs it.
"""

from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file, read again only if that is another one than before.

    Raises
    ------
    Exception
        What the library raises if it can't be read.
    """
    state = path.stat()
    return _read(str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=4)  # each takes about 0.3 GB where words are many
def _read(path: str, *state: int) -> Tokenizer:
    return Tokenizer.from_file(path)
