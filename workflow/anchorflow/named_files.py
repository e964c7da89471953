"""Files and folders that the configuration names; those in installed packages as package:file."""

import importlib.util
import os
from pathlib import Path

from anchorflow.errors import InputError


def packaged(key: str, path: str) -> Path:
    """Where ``path`` lies: inside an installed package if it is package:file, else as it stands.

    The package is found, not imported.

    Parameters
    ----------
    key : str
        Where the path stands in the configuration, for the error sentence.

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
        If it is no model directory.
    """
    directory = Path(path)
    if not _has(directory, "config.json"):
        raise InputError(
            f"models.{name}.path: {path!r} is no model directory (it has no config.json); correct "
            "the path, which is relative to the working directory."
        )
    return directory


def encoder_folder(path: str) -> Path:
    """The directory of a sentence encoder that ``encoder.path`` names.

    Raises
    ------
    InputError
        If it is no encoder's directory, or in a package that is not installed.
    """
    directory = packaged("encoder.path", path)
    if not _has(directory, "modules.json"):
        remedy = (
            "install the package again with pip, or correct the path."
            if ":" in path
            else "correct the path, which is relative to the working directory."
        )
        raise InputError(
            f"encoder.path: {path!r} is no directory in sentence-transformers' format (it has no "
            f"modules.json); {remedy}"
        )
    return directory


def _has(directory: Path, file: str) -> bool:
    return os.path.isfile(directory / file)  # Path.is_file raises for too long names
