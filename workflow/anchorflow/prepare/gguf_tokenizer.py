"""A GGUF file's tokenizer as the file describes it, which transformers follows only in part.

``tokenizer.ggml.pre`` names how text is split before a byte-level vocabulary's merges. transformers
knows some names; for others it splits as GPT-2 does, without a word. The names and what they mean
are those of llama.cpp (``llama-vocab.cpp``), which writes these files.
"""

from pathlib import Path
from typing import Any

import gguf
from tokenizers import Tokenizer, pre_tokenizers

from anchorflow.config.errors import InputError

_BYTE_LEVEL = "gpt2"  # of tokenizer.ggml.model; other vocabularies are not split
# What tokenizer.ggml.pre names: splitting that transformers knows by this name, that of GPT-2, and
# the latter after all digits have been split from each other.
_NAMED, _AS_GPT2, _DIGITS = "named", "as GPT-2", "digits first"
_NAMES = {
    _NAMED: "llama3 llama-v3 llama-bpe falcon3 pixtral lfm2 dbrx smaug-bpe tekken qwen2 "
    "deepseek-r1-qwen megrez qwen35 gpt-4o llama4",
    _AS_GPT2: "gpt-2 phi-2 mpt olmo jais trillion granite-docling exaone4 mellum",
    _DIGITS: "smollm starcoder refact command-r codeshell exaone minerva-7b",
}
SPLITTING = {pre: kind for kind, names in _NAMES.items() for pre in names.split()}
# Whole words of the vocabulary take precedence over merges, and BOS is added if nothing is said.
_WORDS_FIRST = ("llama3", "llama-v3", "llama-bpe", "falcon3", "pixtral", "lfm2", "tekken")


def follow(name: str, file: Path, tokenizer: Tokenizer) -> bool | None:
    """Change a tokenizer, which transformers made of a GGUF file, to what the file says.

    Returns whether the file's kind of tokenizer adds BOS although no key says so; None if a key
    does.
    """
    said = {
        key: field.contents() for key, field in gguf.GGUFReader(file).fields.items() if _is(key)
    }
    pre = str(said.get("tokenizer.ggml.pre", "none"))
    if said.get("tokenizer.ggml.model") == _BYTE_LEVEL:
        if pre not in SPLITTING:
            raise InputError(
                f"models.{name}: its GGUF file splits text as {pre!r} (tokenizer.ggml.pre), which "
                "is not known here, so its tokens could be others; use the model's folder with its "
                'tokenizer.json and "source: local".'
            )
        if SPLITTING[pre] == _DIGITS:
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [
                    pre_tokenizers.Digits(individual_digits=True),
                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
                ]
            )
        if pre in _WORDS_FIRST:
            model: Any = tokenizer.model
            model.ignore_merges = True
            tokenizer.model = model
    wanted = said.get("tokenizer.ggml.add_space_prefix")
    begins = tokenizer.encode("a", add_special_tokens=False).tokens[:1]
    spaced = bool(begins) and begins[0].startswith(("\u2581", "\u0120"))
    if wanted is not None and bool(wanted) != spaced:
        raise InputError(
            f"models.{name}: its GGUF file says that {'a' if wanted else 'no'} space precedes a "
            "text (tokenizer.ggml.add_space_prefix), but transformers' tokenizer does otherwise; "
            'use the model\'s folder with its tokenizer.json and "source: local".'
        )
    return None if "tokenizer.ggml.add_bos_token" in said else pre in _WORDS_FIRST


def _is(key: str) -> bool:
    return key in {
        f"tokenizer.ggml.{part}" for part in ("model", "pre", "add_space_prefix", "add_bos_token")
    }
