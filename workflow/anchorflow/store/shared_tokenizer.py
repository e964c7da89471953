"""Tokenizers, read once by the server whose forks the jobs are, and again if a file has changed.

Reading a tokenizer of 262,000 tokens takes a second, longer than many jobs that need it.
"""

from functools import lru_cache
from pathlib import Path

from tokenizers import Tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer in a file, read again only if the file has changed."""
    state = path.stat()
    return _read(str(path.resolve()), state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=4)  # a tokenizer with a large vocabulary takes about 0.3 GB
def _read(path: str, *state: int) -> Tokenizer:
    return Tokenizer.from_file(path)
