"""A model's tokenizer and architecture, resolved once and without its weights."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, PreTrainedTokenizerBase

from anchorflow.architectures import check_architecture
from anchorflow.errors import InputError
from anchorflow.model_sources import model_directory, reading, without_origin
from anchorflow.tables import replacing


def resolve_tokenizer(name: str, settings: Mapping[str, Any], folder: str | Path) -> None:
    """Save a model's tokenizer and its architecture's configuration, without its weights.

    Parameters
    ----------
    name : str
        The model's name in the configuration.
    settings : mapping
        ``source`` and what belongs to it, as in the configuration.
    folder : path
        Becomes a directory with ``config.json`` and the tokenizer's files.

    Raises
    ------
    InputError
        If the source can't be had, the tokenizer gives no character offsets, or the architecture
        is not supported.
    """
    with model_directory(name, settings, weights=False) as (directory, gguf):
        with reading(name, directory):
            config = AutoConfig.from_pretrained(directory, **gguf)
        check_architecture(name, config)
        with reading(name, directory):
            tokenizer = AutoTokenizer.from_pretrained(directory, **gguf)
        if not tokenizer.is_fast:
            raise InputError(
                f"models.{name}: its tokenizer gives no character offsets, from which positions "
                "are found; choose a model with a fast tokenizer (tokenizer.json)."
            )
        with replacing(folder) as temporary:
            temporary.mkdir()
            without_origin(config).save_pretrained(temporary)
            tokenizer.save_pretrained(temporary)


def open_tokenizer(folder: str | Path) -> tuple[PreTrainedTokenizerBase, int]:
    """A resolved tokenizer and the longest prompt, in tokens, that its model takes.

    Raises
    ------
    InputError
        If the folder is damaged.
    """
    try:
        context: int = AutoConfig.from_pretrained(folder).get_text_config().max_position_embeddings
        tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder}: not a readable tokenizer ({str(error).splitlines()[0]}); "
            "delete it and run again to rebuild it."
        ) from None
    # Prompts are measured against the context by us; transformers' own warning would be noise.
    logging.getLogger("transformers.tokenization_utils_base").setLevel(logging.ERROR)
    return tokenizer, context
