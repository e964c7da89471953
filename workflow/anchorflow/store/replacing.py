"""Files and folders that appear under their name only once they are complete."""

import contextlib
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from anchorflow.config.errors import InputError, disk_is_full, full_disk_sentence
from anchorflow.config.places import make_writable


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path next to ``path``, for a file or a directory to be written there.

    It replaces ``path`` when the block succeeds.

    A reader sees the old file or the complete new one; a failed or killed block leaves ``path``
    unchanged. The next block removes what a killed one left behind.
    """
    path = Path(path)
    make_writable(path.parent)
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.part"):
        _remove(left)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)  # since os.replace refuses to replace a folder with contents
        os.replace(temporary, path)
    except Exception as error:
        if disk_is_full(error):
            raise InputError(full_disk_sentence(path)) from None
        raise
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
