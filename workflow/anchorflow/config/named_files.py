"""Files and folders named in the configuration, also inside installed packages (package:file)."""

import importlib.util
import os
from pathlib import Path

from anchorflow.config.errors import InputError


def packaged(key: str, path: str) -> Path:
    """Resolve ``path``: inside an installed package if it is package:file, else unchanged.

    The package is located, not imported.

    Parameters
    ----------
    key : str
        The path's configuration key, for the error sentence.

    Raises
    ------
    InputError
        If the package is not installed.
    """
    package, colon, inner = path.partition(":")
    if not colon:
        return Path(path)
    found = importlib.util.find_spec(package) if package.isidentifier() else None
    if found is None or found.origin is None:
        raise InputError(
            f'{key}: the Python package "{package}" is not installed; install it '
            "with pip, or correct the name."
        )
    return Path(found.origin).parent / inner


def local_model(name: str, path: str) -> Path:
    """The directory of the local model called ``name``.

    Raises
    ------
    InputError
        If it is not a model directory.
    """
    directory = Path(path)
    if not _has(directory, "config.json"):
        raise InputError(
            f"models.{name}.path: {path!r} is not a model directory (it has no config.json); "
            "correct the path, which is relative to the working directory."
        )
    return directory


def encoder_folder(path: str) -> Path:
    """The directory of the sentence encoder at ``encoder.path``.

    Raises
    ------
    InputError
        If it is not an encoder's directory, or its package is not installed.
    """
    directory = packaged("encoder.path", path)
    if not _has(directory, "modules.json"):
        remedy = (
            "install the package again with pip, or correct the path."
            if ":" in path
            else "correct the path, which is relative to the working directory."
        )
        raise InputError(
            f"encoder.path: {path!r} is not a directory in sentence-transformers' format (it has "
            f"no modules.json); {remedy}"
        )
    return directory


def _has(directory: Path, file: str) -> bool:
    return os.path.isfile(directory / file)  # Path.is_file raises for names that are too long
