"""A resolved tokenizer, opened without importing transformers and torch."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from anchorflow.config.errors import InputError
from anchorflow.store.checksums import changed_file, read_json

TOKENIZER = "tokenizer.json"
ARCHITECTURE = "architecture.json"


def open_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer in ``results/tokenizers/{model}``; it never truncates or pads.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    path = Path(folder) / TOKENIZER
    changed = changed_file(Path(folder), _described(folder)["files"], Path(folder) / ARCHITECTURE)
    if changed:
        raise InputError(f"{changed}: missing or damaged; delete {folder} and run again.")
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception
        raise InputError(
            f"{path}: not a readable tokenizer ({error}); delete {folder} and run again."
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_architecture(folder: str | Path) -> dict[str, Any]:
    """Architecture, layers, query and key-value heads, and context (tokens) of a model.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    return {key: value for key, value in _described(folder).items() if key != "files"}


def _described(folder: str | Path) -> dict[str, Any]:
    return read_json(Path(folder) / ARCHITECTURE, remedy=f"delete {folder} and run again")
