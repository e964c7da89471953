"""Models and adapters as the configuration names them, with what a short name leaves out.

A text is a GGUF file by its ending, a folder if it is one here, and otherwise a model of the Hub
if it can be one. A mapping may leave out ``source``, which follows from its other keys.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anchorflow.config.errors import InputError
from anchorflow.config.named_files import local_adapter, local_model, packaged

HUB_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?")
BRANCH = "main"  # which every repository of the Hub has
_SOURCES = {"repository": "hub", "path": "local", "files": "gguf"}  # by the key that only it has
_OF_SOURCE = {**_SOURCES, "revision": "hub", "sha256": "gguf"}
_READ = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors")


def write_out(models: Any) -> None:
    """Replace short names by mappings, and add sources and branches, in place.

    What makes no sense stays, for the schema to refuse.
    """
    if not isinstance(models, dict):
        return
    for name, given in models.items():
        models[name] = _written_out(given)
        if isinstance(models[name], dict) and "adapter" in models[name]:
            models[name]["adapter"] = _written_out(models[name]["adapter"])


def _written_out(given: Any) -> Any:
    if isinstance(given, str):
        given = _of_text(given)
    if not isinstance(given, dict):
        return given
    sources = [source for key, source in _SOURCES.items() if key in given]
    whole = {**({"source": sources[0]} if len(sources) == 1 else {}), **given}
    if whole.get("source") == "hub":
        whole.setdefault("revision", BRANCH)
    return whole


def _of_text(text: str) -> dict[str, Any]:
    if text.lower().endswith(".gguf"):
        return {"files": [text]}
    if HUB_NAME.fullmatch(text) and not os.path.isdir(text):
        return {"repository": text}
    return {"path": text}


def check_source(key: str, settings: Mapping[str, Any]) -> None:
    """Refuse a model that names no source, or another one's keys, or a path where nothing is."""
    if "source" not in settings:
        raise InputError(
            f"{key}: it has to name where its weights are by one of {', '.join(_SOURCES)}; write "
            "one of these keys."
        )
    for other in sorted(_OF_SOURCE.keys() & settings.keys()):
        if settings["source"] != _OF_SOURCE[other]:
            raise InputError(
                f"{key}.{other}: it is for {_OF_SOURCE[other]}, and the source is "
                f"{settings['source']}; leave one of them out."
            )
    if "adapter" in settings:
        check_source(f"{key}.adapter", settings["adapter"])
    if settings["source"] == "local" and key.endswith(".adapter"):
        local_adapter(key, settings["path"])
    elif settings["source"] == "local":
        local_model(key.removeprefix("models."), settings["path"])


def of_hub(models: Mapping[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries of models and adapters that are on the Hub, each with its key."""
    for name, settings in models.items():
        adapter = settings.get("adapter")
        entries = ((f"models.{name}", settings), (f"models.{name}.adapter", adapter))
        yield from ((key, entry) for key, entry in entries if entry and entry["source"] == "hub")


def files_of_model(name: str, settings: Mapping[str, Any]) -> list[str]:
    """The files of a model and its adapter that no commit or checksum pins, for rules to watch."""
    found: list[str] = []
    for entry in filter(None, (settings, settings.get("adapter"))):
        if entry["source"] == "local":
            folder = Path(entry["path"])
            found += sorted(str(path) for kind in _READ for path in folder.glob(kind))
        elif entry["source"] == "gguf" and "sha256" not in entry:
            found += [str(packaged(f"models.{name}.files", file)) for file in entry["files"]]
    for file in found:
        if not os.path.isfile(file):
            raise InputError(f"models.{name}.files: there is no file {file}; correct the path.")
    return found
