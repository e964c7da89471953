"""What watched files hold, for jobs that depend on it: a new file may have an older time stamp.

Snakemake compares time stamps, which ``cp -p``, ``mv``, ``rsync -a`` and archives keep. Digests are
therefore among the ``params`` of the rules that read such files.
"""

import functools
import hashlib
import os
from collections.abc import Iterable

_WHOLE = 2**24  # bytes; larger files are read in part, so that planning takes no longer
_PARTS, _PART = 256, 4096  # of a larger file, evenly spaced, and its end


def contents_of(files: Iterable[str | os.PathLike[str]]) -> dict[str, str]:
    """Size and digest of each file's bytes by its path; of large ones, of 1 MiB spread over it."""
    return {os.fspath(file): _content(os.fspath(file)) for file in files}


@functools.cache  # many jobs read the same files, and planning asks for each
def _content(path: str) -> str:
    size, digest = os.path.getsize(path), hashlib.sha256()
    with open(path, "rb") as file:
        if size <= _WHOLE:
            digest.update(file.read())
        else:
            for part in range(_PARTS):
                file.seek(part * (size - _PART) // (_PARTS - 1))
                digest.update(file.read(_PART))
    return f"{size} {digest.hexdigest()[:16]}"
