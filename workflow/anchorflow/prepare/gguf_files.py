"""GGUF files: a header that is read quickly, and a tokenizer as the file describes it.

:class:`QuickReader` reads the long arrays of a header (a tokenizer's words) in one go. It contains
all uses of undocumented parts of gguf, and serves speed only: the header of Gemma 3 takes 11
seconds to read without it and 0.5 with it, and transformers reads it four times before the first
prompt.

:func:`follow` corrects the tokenizer, of whose description transformers follows only a part.
``tokenizer.ggml.pre`` names how text is split before a byte-level vocabulary's merges. transformers
knows some names; for others it splits as GPT-2 does, without a word. The names and what they mean
are those of llama.cpp (``llama-vocab.cpp``), which writes these files.
"""

import contextlib
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGUFValueType
from tokenizers import Tokenizer, pre_tokenizers

from anchorflow.config.errors import InputError

Parts = tuple[int, list[Any], list[int], list[GGUFValueType]]


class QuickReader(gguf.GGUFReader):
    """gguf's reader, which finds the same fields without a call for each element of an array.

    If gguf renames the method that is replaced here, its own reader is in use again.
    """

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Parts:
        """A field's size in bytes, its parts, the indices of those that are values, its types."""
        plain: Callable[[int, int], Parts] = super()._get_field_parts
        if raw_type != GGUFValueType.ARRAY or self.byte_order == "S":
            return plain(orig_offs, raw_type)
        # An array begins with the type of its elements (4 bytes) and their number (8 bytes).
        data, start = np.asarray(self.data), orig_offs + 12
        of_elements = data[orig_offs : orig_offs + 4].view(np.uint32)
        length = data[orig_offs + 4 : start].view(np.uint64)
        kind, count = GGUFValueType(of_elements[0]), int(length[0])
        parts: list[Any] = [of_elements, length]
        types = [GGUFValueType.ARRAY, *([kind] if count else [])]
        if kind in self.gguf_scalar_to_np:
            dtype = np.dtype(self.gguf_scalar_to_np[kind])
            values = data[start : start + count * dtype.itemsize].view(dtype)
            parts += list(values[:, None])
            return 12 + values.nbytes, parts, list(range(2, 2 + count)), types
        if kind != GGUFValueType.STRING:
            return plain(orig_offs, raw_type)
        at = start
        for _ in range(count):
            (size,) = struct.unpack_from("<Q", data.data, at)
            parts += (data[at : at + 8].view(np.uint64), data[at + 8 : at + 8 + size])
            at += 8 + size
        return at - orig_offs, parts, list(range(3, 3 + 2 * count, 2)), types


@contextlib.contextmanager
def quickly_read() -> Iterator[None]:
    """In the block, replace gguf's reader, which transformers looks up by its name."""
    original, gguf.GGUFReader = gguf.GGUFReader, QuickReader
    try:
        yield
    finally:
        gguf.GGUFReader = original


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
    fields = gguf.GGUFReader(file).fields
    parts = ("model", "pre", "add_space_prefix", "add_bos_token")
    keys = [key for part in parts if (key := f"tokenizer.ggml.{part}") in fields]
    said = {key: fields[key].contents() for key in keys}
    pre = str(said.get("tokenizer.ggml.pre", "none"))
    if said.get("tokenizer.ggml.model") == _BYTE_LEVEL:
        if pre not in SPLITTING:
            raise InputError(
                f"models.{name}: its GGUF file splits text as {pre!r} (tokenizer.ggml.pre), which "
                "is not known here, so its tokens could be others; use the model's folder with its "
                'tokenizer.json and "source: local".'
            )
        if SPLITTING[pre] == _DIGITS:
            digits = pre_tokenizers.Digits(individual_digits=True)
            in_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
            tokenizer.pre_tokenizer = pre_tokenizers.Sequence([digits, in_bytes])
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
