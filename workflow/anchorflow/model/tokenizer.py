"""A resolved tokenizer, and groups of label tokens, without importing transformers and torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from anchorflow.config.errors import InputError
from anchorflow.store.checksums import changed_file, read_json
from anchorflow.store.shared_tokenizer import read_tokenizer

TOKENIZER = "tokenizer.json"
ARCHITECTURE = "architecture.json"
CHAT_TEMPLATE = "chat_template.json"


@dataclass(frozen=True)
class ChatTemplate:
    """How a model was trained to see conversations.

    ``source`` is a program in Jinja, from messages to a prompt. ``special_tokens`` are those that
    it can write, such as ``bos_token``, by their names.
    """

    source: str
    special_tokens: dict[str, str]


def open_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer in ``results/tokenizers/{model}``; it never truncates or pads."""
    path = Path(folder) / TOKENIZER
    _check_files(folder)
    try:
        tokenizer = read_tokenizer(path)
    except Exception as error:  # the library raises plain Exception
        raise InputError(
            f"{path}: not a readable tokenizer ({error}); delete {folder} and run again."
        ) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_architecture(folder: str | Path) -> dict[str, Any]:
    """Architecture, layers, query and key-value heads, and context (tokens) of a model."""
    return {key: value for key, value in _described(folder).items() if key != "files"}


def read_chat_template(folder: str | Path, key: str, model: str) -> ChatTemplate:
    """The chat template in ``results/tokenizers/{model}``.

    The error names ``key``, the configuration key that asks for it.
    """
    found = find_chat_template(folder)
    if found is None:
        raise InputError(
            f"{key}: model {model} has no chat template, so it was probably not trained on "
            'conversations; choose another model, or set "chat: false".'
        )
    return found


def find_chat_template(folder: str | Path) -> ChatTemplate | None:
    """The chat template in a folder, if the model came with one; raises InputError if damaged."""
    if CHAT_TEMPLATE not in _check_files(folder):
        return None
    found = read_json(Path(folder) / CHAT_TEMPLATE, remedy=f"delete {folder} and run again")
    return ChatTemplate(found["source"], found["special_tokens"])


def _check_files(folder: str | Path) -> dict[str, Any]:
    """The fingerprints of a folder's files, after comparing the files with them."""
    files: dict[str, Any] = _described(folder)["files"]
    changed = changed_file(Path(folder), files, Path(folder) / ARCHITECTURE)
    if changed:
        raise InputError(f"{changed}: missing or damaged; delete {folder} and run again.")
    return files


def _described(folder: str | Path) -> dict[str, Any]:
    return read_json(Path(folder) / ARCHITECTURE, remedy=f"delete {folder} and run again")


def token_groups(label_tokens: Sequence[int]) -> list[int]:
    """For each label, the first label whose word begins with the same token.

    Analyses of first tokens treat the labels of a group as one: the first of them.
    """
    first: dict[int, int] = {}
    return [first.setdefault(token, label) for label, token in enumerate(label_tokens)]


def ordinary_tokens(tokenizer: Tokenizer, size: int) -> list[int]:
    """The tokens among the first ``size`` ones that are not special."""
    added = tokenizer.get_added_tokens_decoder().items()
    special = {token for token, known in added if known.special}
    return [token for token in range(size) if token not in special]
