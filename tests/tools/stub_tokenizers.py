"""As much of a tokenizer as a test needs."""

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StubEncoding:
    """A tokenized text, as far as prompts look at it."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class StubTokenizer:
    """One token per match of a regular expression; characters outside any match are dropped."""

    def __init__(self, pattern: str, bos: bool = False) -> None:
        self._pattern, self._bos = re.compile(pattern), bos

    def encode(self, text: str, /) -> StubEncoding:
        matches = list(self._pattern.finditer(text))
        ids = [sum(map(ord, match[0])) for match in matches]
        offsets = [match.span() for match in matches]
        return StubEncoding([0] * self._bos + ids, [(0, 0)] * self._bos + offsets)

    def get_added_tokens_decoder(self) -> dict[int, Any]:
        return {}


class Decoder:
    """As much of a tokenizer as predictions need."""

    def decode(self, tokens: list[int], **_: Any) -> str:
        return str(tokens[0])
