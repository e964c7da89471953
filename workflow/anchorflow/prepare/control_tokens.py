"""Control tokens, such as ``<bos>``: a template writes them; in contents they are plain text.

A text that contains the characters of a control token would end a document or open a turn, in the
middle of a prompt. Where that happens, the prompt is encoded by a copy of the tokenizer that knows
its control tokens by private names, which the text around contents is written with. Names are as
long as the tokens, so that no position moves.
"""

import functools
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import tokenizers

from anchorflow.config.errors import InputError

Segment = tuple[str, str]  # what it is, and its text
CONTENTS = ("field", "label", "instruction")  # kinds of segments that are no formatting

# Control tokens that some tokenizers do not mark as special.
_FORMS = re.compile(r"<\|.*\|>|<｜.*｜>|[<\[]unused\d+[>\]]")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")  # stands for a byte of an unknown character
_PRIVATE = 0xF0000  # the first of 65,534 characters of private use


class Encoding(Protocol):
    """A tokenized text."""

    @property
    def ids(self) -> list[int]:
        """Token ids, including special tokens such as BOS."""

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """First character of each token and the character after its last; equal if it has none."""


class Tokens(NamedTuple):
    """A tokenized text whose tokens cover their own characters, as :class:`Encoding` has them."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class Tokenizer(Protocol):
    """What is needed of a tokenizer, such as ``tokenizers.Tokenizer`` or a stub in a test."""

    @property
    def encode(self) -> Callable[..., Encoding]:
        """Tokenize a text, without truncation; ``add_special_tokens=False`` adds no BOS."""

    def __hash__(self) -> int:
        """Of the object, since copies of it are kept."""

    def get_added_tokens_decoder(self) -> Mapping[int, Any]:
        """By id, the added tokens, with their ``content`` and whether they are ``special``."""


@functools.lru_cache(maxsize=8)
def control_tokens(tokenizer: Tokenizer, chat_template: str = "") -> Mapping[int, str]:
    """Tokens that are no text, by id: special ones, those a chat template names, reserved ones.

    Added tokens of white space alone are ordinary text, and those of bytes stand for characters.
    """
    return {
        token: added.content
        for token, added in tokenizer.get_added_tokens_decoder().items()
        if added.content.strip()
        and not _BYTE.fullmatch(added.content)
        and (added.special or added.content in chat_template or _FORMS.fullmatch(added.content))
    }


def unknown_token(tokenizer: Tokenizer) -> int | None:
    """The token that stands for characters which a tokenizer doesn't know, if it has one."""
    if not isinstance(tokenizer, tokenizers.Tokenizer):
        return None
    name = getattr(tokenizer.model, "unk_token", None) or "<unk>"  # Unigram's has no attribute
    return tokenizer.token_to_id(name)


def encode(
    tokenizer: Tokenizer,
    segments: Sequence[Segment],
    chat_template: str = "",
    in_chat: bool = False,
) -> Tokens:
    """Tokenize joined segments, of which those of :data:`CONTENTS` are plain text.

    The prompt begins with BOS once if the tokenizer adds one, also if the template writes it. What
    the model's chat template does not name is no control token, but text. In a chat, the template
    writes all special tokens itself.
    """
    text = "".join(part for _, part in segments)
    control = control_tokens(tokenizer, chat_template)
    encoding = _encode_once(tokenizer, text, control, in_chat)
    unknown = unknown_token(tokenizer)
    tokens, found = _in_contents(segments, encoding, control, unknown)
    if found is None:
        return tokens
    try:
        names = _private_names(control)
        written = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))
        text = "".join(
            part if kind in CONTENTS else written.sub(lambda match: names[match[0]], part)
            for kind, part in segments
        )
        renamed = _renamed(tokenizer, chat_template)
        encoding = _encode_once(renamed, text, control, in_chat)
    except Exception:  # of the library, for models that it can't rename
        encoding = _encode_once(tokenizer, text, control, in_chat)
    tokens, remaining = _in_contents(segments, encoding, control, unknown)
    if remaining is not None:
        raise InputError(
            f"{found!r} in a text or an instruction is a control token for this tokenizer, which "
            "can't read it as text; remove it there."
        )
    return tokens


def _encode_once(
    tokenizer: Tokenizer, text: str, control: Mapping[int, str], in_chat: bool
) -> Encoding:
    """Tokenize a text that may begin with BOS already, which is then not added."""
    if in_chat:
        return tokenizer.encode(text, add_special_tokens=False)
    encoding = tokenizer.encode(text)
    begin = encoding.ids[:2]
    if len(begin) == 2 and begin[0] == begin[1] and begin[0] in control:
        first, last = encoding.offsets[0]
        return tokenizer.encode(text, add_special_tokens=False) if first == last else encoding
    return encoding


def _in_contents(
    segments: Sequence[Segment], encoding: Encoding, control: Mapping[int, str], unknown: int | None
) -> tuple[Tokens, str | None]:
    """Tokens with their offsets, and a control token that covers characters of a content, if any.

    Some control tokens take the white space beside them. That of a content belongs to none of them,
    so they cover their own name alone. The unknown token counts where a content has its name, not
    where it stands for a character.
    """
    text = "".join(part for _, part in segments)
    begins, ends, reached = [], [], 0
    for kind, part in segments:
        if part and kind in CONTENTS:
            begins.append(reached)
            ends.append(reached + len(part))
        reached += len(part)

    def in_content(first: int, last: int) -> bool:
        following = bisect_right(ends, first)  # the first content that ends after its begin
        return first < last and following < len(ends) and begins[following] < last

    offsets, found = list(encoding.offsets), None
    for place, token in enumerate(encoding.ids):
        if token in control and in_content(*offsets[place]):
            at = text.find(control[token], *offsets[place])
            if at >= 0:
                offsets[place] = at, at + len(control[token])
            first, last = offsets[place]
            is_name = token != unknown or text[first:last].strip() == control[token]
            if found is None and is_name and in_content(first, last):
                found = control[token]
    return Tokens(list(encoding.ids), offsets), found


def _private_names(control: Mapping[int, str]) -> dict[str, str]:
    return {
        written: chr(_PRIVATE + place) * len(written)
        for place, written in enumerate(control.values())
    }


@functools.lru_cache(maxsize=2)  # a copy of a large vocabulary takes seconds
def _renamed(tokenizer: Tokenizer, chat_template: str) -> tokenizers.Tokenizer:
    """A copy of a tokenizer whose control tokens have private names, and the same ids."""
    names = _private_names(control_tokens(tokenizer, chat_template))
    assert isinstance(tokenizer, tokenizers.Tokenizer)
    described = json.loads(tokenizer.to_str())
    model = described["model"]
    for added in described["added_tokens"]:
        added["content"] = names.get(added["content"], added["content"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {names.get(part, part): token for part, token in model["vocab"].items()}
    else:  # Unigram's, with scores
        model["vocab"] = [[names.get(part, part), score] for part, score in model["vocab"]]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    return tokenizers.Tokenizer.from_str(json.dumps(described))
