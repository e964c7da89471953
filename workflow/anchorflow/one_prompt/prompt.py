"""A prompt of one's own, and the names by which tokens of a prompt are chosen."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from tokenizers import Tokenizer

from anchorflow.config.errors import InputError
from anchorflow.prepare.control_tokens import Segment, control_tokens, encode
from anchorflow.prepare.positions import KINDS, kinds_of, label_word_positions
from anchorflow.prepare.template import Template, locate

Tokens = int | str | Sequence[int | str]  # as :func:`positions_named` reads them

_ANY_WORDING = Template((("template", ""),), separator="")
_NAMES = {"label_words": "label", "texts": "text", "template": "template"}
_NAMES |= {"instruction": "instruction", "first": "first", "query": "query"}
assert set(_NAMES.values()) == set(KINDS)


@dataclass(frozen=True)
class Prompt:
    r"""A prompt without a template, such as ``"2+2= 4\n3+1= 4\n1+1="``.

    Parameters
    ----------
    text : str
        The whole prompt, up to the token that is predicted. Control tokens in it are control
        tokens; BOS is added if the tokenizer adds it, once.
    label_words : sequence of str or (int, int), optional
        What counts as label words: words in the order in which they occur, each as often, or spans
        of characters. What lies between two of them is a demonstration's text.
    answers : sequence of str, optional
        The answers to compare, with their leading space, by their first tokens. By default, they
        are the most likely next tokens.
    """

    text: str
    label_words: Sequence[str | tuple[int, int]] = ()
    answers: Sequence[str] = ()

    def located(self, tokenizer: Tokenizer, name: str) -> dict[str, Any]:
        """A row of ``PROMPTS`` for the model ``name``, without its answers' tokens."""
        spans = self.spans()
        segments: list[Segment] = []
        reached = 0
        for first, end in (*spans, (len(self.text), None)):
            between = self.text[reached:first]
            blank = len(between) - len(between.lstrip("\n")) if reached else 0
            segments += [("separator", between[:blank]), ("template", between[blank:])]
            segments += [("label", self.text[first:end])] if end else []
            reached = end or first
        found = locate(tokenizer, _ANY_WORDING, segments)
        control = control_tokens(tokenizer)
        formats = [place for place, token in enumerate(found.token_ids) if token in control]
        words = [self.text[first:end] for first, end in spans]
        known = [answer.strip() for answer in self.answers]
        return {
            **vars(replace(found, format_positions=formats, merged_positions=[])),
            **{"model": name, "task": "prompt", "seed": 0, "demonstrations": "fixed"},
            **{"example": 0, "tokens": len(found.token_ids), "skipped": None},
            "demonstration_labels": [
                known.index(word.strip()) if word.strip() in known else -1 for word in words
            ],
        }

    def spans(self) -> list[tuple[int, int]]:
        """The characters of each label word, with the spaces before it, in order."""
        found, reached = [], 0
        words = [word.strip(" ") for word in self.label_words if isinstance(word, str)]
        for word in sorted(set(words)):
            there = len(re.findall(rf"(?={re.escape(word)})", self.text)) if word else 0
            if there != words.count(word):
                raise InputError(
                    f"label_words: {word!r} is given {words.count(word)} times, but the prompt "
                    f"has it {there} times; give the label words as spans of characters, such as "
                    "(12, 20)."
                )
        for given in self.label_words:
            is_span = isinstance(given, tuple) and [type(part) for part in given] == [int, int]
            if not (is_span or isinstance(given, str)):
                raise InputError(
                    f"label_words: {given!r} is neither a word nor a span of characters; write it "
                    "as (12, 20)."
                )
            if isinstance(given, str):
                first = self.text.find(given.strip(" "), reached)
                end = first + len(given.strip(" "))
            else:
                first, end = given
            if not reached <= first < end <= len(self.text):
                raise InputError(
                    f"label_words: {given!r} is not in the prompt after the one before it; give "
                    "label words in the order in which they occur."
                )
            while first > reached and self.text[first - 1] == " ":
                first -= 1
            found.append((first, end))
            reached = end
        return found

    def without(self, demonstration: int) -> "Prompt":
        """The prompt without a demonstration: its text, label word, and what separates it."""
        spans = self.spans()
        starts = [0, *(end for _, end in spans[:-1])]
        cut_first, cut_end = starts[demonstration], spans[demonstration][1]
        rest = self.text[:cut_first] + self.text[cut_end:]
        if demonstration == 0:  # the separator stands before the other demonstrations
            gone = len(rest) - len(rest.lstrip("\n "))
            rest, cut_end = rest[gone:], cut_end + gone
        width = cut_end - cut_first
        kept = [
            (first, end) if end <= cut_first else (first - width, end - width)
            for place, (first, end) in enumerate(spans)
            if place != demonstration
        ]
        return replace(self, text=rest, label_words=kept)

    def relabeled(self, demonstration: int, answer: str) -> "Prompt":
        """The prompt with another label word in a demonstration."""
        spans = self.spans()
        first, end = spans[demonstration]
        word = self.text[first:end]
        answer = word[: len(word) - len(word.lstrip(" "))] + answer.strip(" ")
        more = len(answer) - (end - first)
        moved = [
            (first + more * (place > demonstration), end + more * (place >= demonstration))
            for place, (first, end) in enumerate(spans)
        ]
        return replace(self, text=self.text[:first] + answer + self.text[end:], label_words=moved)


def answer_tokens(tokenizer: Tokenizer, text: str, answers: Sequence[str]) -> list[int]:
    """The first token of each answer after a prompt."""
    before = encode(tokenizer, [("template", text)]).ids
    tokens = []
    for answer in answers:
        whole = encode(tokenizer, [("template", text + answer)]).ids
        if whole[: len(before)] != before or len(whole) == len(before):
            raise InputError(
                f"answers: {answer!r} is merged with the end of the prompt into one token; begin "
                "it with a space, or end the prompt without one."
            )
        tokens.append(whole[len(before)])
    return tokens


def positions_named(prompt: Mapping[str, Any], texts: Sequence[str], tokens: Tokens) -> list[int]:
    """The positions of the tokens that are named, in increasing order.

    A name is an index, which may count from the end; a kind (``label_words``, ``texts``,
    ``template``, ``instruction``, ``first``, ``query``); ``demonstration[2]``, counted from 0; or a
    piece of the prompt, of which all tokens that have a character of it are meant, wherever it
    occurs. ``kind:first`` and ``text:first`` tell a kind from a piece that reads alike. ``texts``
    are the prompt's tokens as text.
    """
    names = [tokens] if isinstance(tokens, int | str) else list(tokens)
    found = sorted(set(chain.from_iterable(_named(prompt, texts, name) for name in names)))
    if not found:
        raise InputError("tokens: none is named; give an index, a kind, or a piece of the prompt.")
    return found


def _named(prompt: Mapping[str, Any], texts: Sequence[str], name: int | str) -> list[int]:
    count = len(texts)
    if isinstance(name, int):
        if not -count <= name < count:
            raise InputError(f"tokens: {name} is not among the prompt's {count} tokens.")
        return [name % count]
    what, _, rest = name.partition(":")
    piece = rest if what == "text" else name
    kind = rest if what == "kind" else name
    spans = [] if what == "kind" else _pieces(texts, piece)
    of_kind = None if what == "text" else _of_kind(prompt, kind)
    if of_kind is not None and spans:
        raise InputError(
            f'tokens: {name!r} is a kind of tokens and also a piece of the prompt; write "kind:'
            f'{name}" or "text:{name}".'
        )
    if of_kind is None and not spans:
        kinds = ", ".join([*_NAMES, "demonstration[0]"])
        raise InputError(
            f"tokens: {name!r} is not in the prompt, and no kind of tokens; kinds are {kinds}."
        )
    if of_kind == []:
        raise InputError(f"tokens: the prompt has no {kind}.")
    return spans or of_kind or []


def _of_kind(prompt: Mapping[str, Any], kind: str) -> list[int] | None:
    """The tokens of a kind; None if there is no such kind."""
    of_demonstration = re.fullmatch(r"demonstration\[(\d+)\]", kind)
    if of_demonstration:
        number, starts = int(of_demonstration[1]), prompt["demonstration_starts"]
        if number >= len(starts):
            raise InputError(
                f"tokens: {kind}: the prompt has {len(starts)} demonstrations, counted from 0."
            )
        return list(range(starts[number], prompt["demonstration_ends"][number]))
    if kind not in _NAMES:
        return None
    if kind == "label_words":
        return label_word_positions(prompt)
    number = KINDS.index(_NAMES[kind])
    return [place for place, found in enumerate(kinds_of(prompt)) if found == number]


def _pieces(texts: Sequence[str], piece: str) -> list[int]:
    """The tokens that have a character of a piece of the prompt, wherever it occurs."""
    whole = "".join(texts)
    owner = [place for place, text in enumerate(texts) for _ in text]
    starts = [match.start() for match in re.finditer(f"(?={re.escape(piece)})", whole)]
    return sorted({owner[at] for first in starts for at in range(first, first + len(piece))})
