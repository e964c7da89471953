"""What watched files hold, for jobs that depend on it: a new file may have an older time stamp.

Snakemake compares time stamps, which ``cp -p``, ``mv``, ``rsync -a`` and archives keep. Digests are
therefore among the ``params`` of the rules that read such files.
"""

import functools
import hashlib
import os
from collections.abc import Iterable

_WEIGHTS = (".safetensors", ".bin", ".gguf")  # read in part, so that planning takes no longer
_WHOLE = 2**24  # bytes; no file is read in part that has fewer
_PARTS, _PART = 256, 4096  # of larger weights, evenly spaced, and their end


def contents_of(files: Iterable[str | os.PathLike[str]]) -> dict[str, str]:
    """Size and digest of each file's bytes by its path; of weights, of 1 MiB spread over them."""
    return {os.fspath(file): _content(os.fspath(file)) for file in files}


@functools.cache  # many jobs read the same files, and planning asks for each
def _content(path: str) -> str:
    size, digest = os.path.getsize(path), hashlib.sha256()
    with open(path, "rb") as file:
        if size <= _WHOLE or not path.endswith(_WEIGHTS):
            digest = hashlib.file_digest(file, "sha256")
        else:
            for part in range(_PARTS):
                file.seek(part * (size - _PART) // (_PARTS - 1))
                digest.update(file.read(_PART))
    return f"{size} {digest.hexdigest()[:16]}"
