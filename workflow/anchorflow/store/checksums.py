"""Checksums that distinguish a damaged or replaced file from the one that was written."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anchorflow.config.errors import InputError

# Files up to this size are read completely on every check, which takes 15 milliseconds.
_SMALL = 2**24  # bytes


def sha256_of(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fingerprints(paths: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Size (bytes) and SHA-256 of files in one folder, by name."""
    return {
        path.name: {"size": path.stat().st_size, "sha256": sha256_of(path)}
        for path in sorted(paths)
    }


def changed_file(
    folder: Path, expected: Mapping[str, Mapping[str, Any]], since: Path
) -> Path | None:
    """The first file that is missing or does not match its fingerprint; None if there is none.

    A large file of the right size whose status has not changed ``since`` another file was written,
    after the fingerprints were taken, is assumed to be unchanged, so that gigabytes are not read
    each time.
    """
    written = since.stat().st_ctime_ns
    for name, known in expected.items():
        path = folder / name
        try:
            now = path.stat()
        except OSError:
            return path
        if now.st_size != known["size"]:
            return path
        untouched = now.st_size > _SMALL and now.st_ctime_ns < written
        if not untouched and sha256_of(path) != known["sha256"]:
            return path
    return None


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as JSON with its own checksum; see :func:`read_json`."""
    whole = {**content, "checksum": _checksum(content)}
    path.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path, remedy: str) -> dict[str, Any]:
    """Read what :func:`write_json` wrote."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if content.pop("checksum") == _checksum(content):
            return content
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        pass
    raise InputError(f"{path}: missing or damaged; {remedy}.")


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
