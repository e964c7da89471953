"""Files and folders named in the configuration, also inside installed packages (package:file).

What these files hold is among the ``params`` of the rules that read them. Snakemake compares time
stamps, and a new file may have an older one, which ``cp -p``, ``mv``, ``rsync -a`` and archives
keep.
"""

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable
from pathlib import Path

from anchorflow.config.errors import InputError

_WEIGHTS = (".safetensors", ".bin", ".gguf")  # read in part, so that planning takes no longer
_WHOLE = 2**24  # bytes; no file is read in part that has fewer
_PARTS, _PART = 256, 4096  # of larger weights, evenly spaced, and their end


def packaged(key: str, path: str) -> Path:
    """Resolve ``path``: inside an installed package if it is package:file, else unchanged.

    The package is located, not imported.
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
    """The directory of the local model called ``name``."""
    directory = Path(path)
    check_no_adapter(name, directory, path)
    if not _has(directory, "config.json"):
        raise InputError(
            f"models.{name}.path: {path!r} is not a model directory (it has no config.json); "
            "correct the path, which is relative to the working directory."
        )
    return directory


def check_no_adapter(name: str, directory: Path, written: str) -> None:
    """Refuse an adapter in place of a model, which the configuration has ``written`` so."""
    if _has(directory, "adapter_config.json") and not _has(directory, "config.json"):
        raise InputError(
            f"models.{name}: {written!r} is an adapter without its model; name both, as in models: "
            f"{{{name}: {{{_base_of(directory)}, adapter: {written}}}}}."
        )


def local_adapter(key: str, path: str) -> Path:
    """The folder of the adapter at ``path``, the value of ``key``."""
    if not _has(Path(path), "adapter_config.json"):
        raise InputError(
            f"{key}: {path!r} is not the folder of an adapter (it has no adapter_config.json); "
            "correct the path, which is relative to the working directory."
        )
    return Path(path)


def _base_of(adapter: Path) -> str:
    """The line that names the model which an adapter was made of, as far as the adapter says."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        described = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
        base = described["base_model_name_or_path"]
        if isinstance(base, str) and base:
            return f"{'path' if os.path.isdir(base) else 'repository'}: {base}"
    return "repository: owner/name"


def files_of_texts(key: str, path: str) -> list[str]:
    """The file of texts at ``path``, or the files in the folder there, sorted by name.

    Hidden files are left out. A folder that the library ``datasets`` wrote with ``save_to_disk``
    lists its files itself.
    """
    if _has(Path(path), "dataset_dict.json"):
        raise InputError(
            f"{key}: {path} holds several splits of a data set; name one of its folders, as in "
            f"{Path(path) / 'train'}."
        )
    if _has(Path(path), "state.json"):
        return _saved_files(key, Path(path))
    if os.path.isfile(path):
        return [str(Path(path))]
    if not os.path.isdir(path):
        raise InputError(
            f"{key}: there is no file {path}; correct the path, which is relative to the working "
            "directory."
        )
    inside = [file for file in sorted(Path(path).iterdir()) if not file.name.startswith(".")]
    if not inside or not all(file.is_file() for file in inside):
        raise InputError(
            f"{key}: the folder {path} should hold files of texts and nothing else; move other "
            "folders away, or name one file."
        )
    return [str(file) for file in inside]


def _saved_files(key: str, folder: Path) -> list[str]:
    """The files of a data set that ``save_to_disk`` wrote, in its order."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        listed = json.loads((folder / "state.json").read_text(encoding="utf-8"))["_data_files"]
        files = [folder / file["filename"] for file in listed]
        if files and all(file.is_file() for file in files):
            return [str(file) for file in files]
    raise InputError(
        f"{key}: {folder} is not a complete data set of save_to_disk; save it there again."
    )


def encoder_folder(path: str, key: str = "encoder.path") -> Path:
    """The directory of the sentence encoder at ``path``, the value of ``key``."""
    directory = packaged(key, path)
    if not _has(directory, "modules.json"):
        remedy = (
            "install the package again with pip, or correct the path."
            if ":" in path
            else "correct the path, which is relative to the working directory."
        )
        raise InputError(
            f"{key}: {path!r} is not a directory in sentence-transformers' format (it has "
            f"no modules.json); {remedy}"
        )
    return directory


def _has(directory: Path, file: str) -> bool:
    return os.path.isfile(directory / file)  # Path.is_file raises for names that are too long


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
