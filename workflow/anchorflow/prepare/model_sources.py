"""Where a model comes from: the Hub at a pinned revision, a directory, or parts of a GGUF file."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig
from transformers.utils import logging as transformers_logging

from anchorflow.config.errors import InputError, disk_is_full, is_out_of_memory
from anchorflow.config.named_files import local_model, packaged
from anchorflow.prepare.checkpoint import ENTRIES

_CONFIGURATION_FILES = ["*.json", "*.txt", "*.model", "*.jinja"]


@contextlib.contextmanager
def model_directory(
    name: str, settings: Mapping[str, Any], weights: bool
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the directory to read from, and the ``gguf_file`` option if it holds a GGUF file.

    ``settings`` are the model's in the configuration. Without the weights, little is fetched from
    the Hub.
    """
    transformers_logging.disable_progress_bar()
    source = settings["source"]
    if source == "gguf":
        try:
            from anchorflow.prepare.gguf_files import quickly_read
        except ModuleNotFoundError as error:
            if error.name != "gguf":
                raise
            raise InputError(
                f"models.{name}: the package gguf, which reads its file, is not installed; run "
                "pip install 'anchorflow[workflow]'."
            ) from None
        with tempfile.TemporaryDirectory() as temporary, quickly_read():
            _join_parts(name, settings, Path(temporary) / "model.gguf")
            yield Path(temporary), {"gguf_file": "model.gguf"}
    elif source == "local":
        yield local_model(name, settings["path"]), {}
    else:
        yield _download(name, settings, weights), {}


def _download(name: str, settings: Mapping[str, Any], weights: bool) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    patterns = [*_CONFIGURATION_FILES, *(["*.safetensors"] if weights else [])]
    try:
        return Path(
            snapshot_download(
                settings["repository"], revision=settings["revision"], allow_patterns=patterns
            )
        )
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        raise InputError(
            f"models.{name}: could not fetch {settings['repository']} at revision "
            f"{settings['revision'][:12]} from the Hugging Face Hub ({type(error).__name__}); "
            'check the names, or work offline with a downloaded directory and "source: local".'
        ) from None


def _join_parts(name: str, settings: Mapping[str, Any], path: Path) -> None:
    digest = hashlib.sha256()
    with open(path, "wb") as whole:
        for part in settings["files"]:
            with open(_part(name, part), "rb") as file:
                while block := file.read(2**20):
                    digest.update(block)
                    whole.write(block)
    if digest.hexdigest() != settings["sha256"]:
        raise InputError(
            f"models.{name}.sha256: the GGUF file has the checksum {digest.hexdigest()}, not "
            f"{settings['sha256']}; reinstall the package or correct the checksum."
        )


def _part(name: str, part: str) -> Path:
    path = packaged(f"models.{name}.files", part)
    if not path.is_file():
        raise InputError(f"models.{name}.files: there is no file {path}; correct the path.")
    return path


@contextlib.contextmanager
def reading(name: str, directory: Path) -> Iterator[None]:
    """Report a damaged or incomplete model directory in one sentence."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # damaged files raise errors of many libraries
        if disk_is_full(error) or is_out_of_memory(error):
            raise
        if isinstance(error, ImportError):
            message = " ".join(str(error).split())
            raise InputError(
                f"models.{name}: it needs a library that is not installed: {message}"
            ) from None
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(
            f"models.{name}: {directory} can't be read as a transformers model ({reason}); "
            "replace it with a complete copy."
        ) from None


def without_origin(config: PretrainedConfig) -> PretrainedConfig:
    """The configuration without entries about its source's files: quantization and file names.

    Only weights under transformers' usual names are read.
    """
    for part in (config, config.get_text_config()):
        for entry in (*ENTRIES, "transformers_weights"):
            vars(part).pop(entry, None)
    return config
