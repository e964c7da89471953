"""The chat format: demonstrations as turns, through the template that comes with a model.

Each demonstration is a turn of the user, which is the demonstration without its label word, and a
turn of the assistant, which is the label word. The query is the last turn of the user, and the
prompt ends where the assistant's answer begins.

A template is a program, so its source does not reveal what it does to contents. It is therefore
rendered twice, by transformers' ``apply_chat_template``: with contents that occur nowhere else,
which reveal the text between them, and with the real ones, which has to give exactly that text with
the real contents in between. The position of every content is then known, whatever it contains.

Contents have no white space at their ends (:meth:`Chat.turns` strips it), since many templates trim
it. If a template writes a space before the assistant's contents but not at the end of a prompt, as
Mistral's does, the space belongs to the label word, as in the plain format.

The rendered text contains all special tokens that the template writes, BOS included, so it is
encoded without adding any (``add_special_tokens=False``), as ``apply_chat_template`` does.
"""

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import tokenizers
from jinja2 import TemplateError

from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import ChatTemplate, read_chat_template
from anchorflow.prepare.control_tokens import Segment

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FORMAT = "format"  # what the template writes around contents
ANSWER = "answer"  # what every answer begins with

# Models with a thinking mode are asked to answer at once. Templates that write today's date get a
# fixed one, Llama's default, so that prompts do not change from day to day.
VARIABLES = {"enable_thinking": False, "date_string": "26 Jul 2024"}
_EMPTY_BLOCK = re.compile(r"\s*<(\w+)>\s*</\1>\s*")  # such as Qwen 3's empty thinking block

# A content in which escaping, a change of case, or a changed line break becomes visible.
_TRIAL = "<b>Aé & 'b'</b>\\n \"c\" {{ d }}\n\n\te\n  f."

_EXCERPT = 40  # characters


@dataclass(frozen=True)
class Turn:
    """What one role says, in the segments that it consists of."""

    role: str
    segments: tuple[Segment, ...]

    @property
    def content(self) -> str:
        """The joined text of the segments."""
        return "".join(text for _, text in self.segments)


class _Frame(NamedTuple):
    """What a template writes around the contents of a sequence of roles."""

    around: tuple[str, ...]  # the text before, between and after them
    blanks: tuple[str, ...]  # the spaces in it that directly precede each content and belong to it


@dataclass(frozen=True)
class Chat:
    """The chat template of a model, which the configuration key ``key`` asks for.

    ``takes_system`` is whether an instruction becomes a turn of its own, with the role ``system``.
    ``blank`` are the spaces that the template writes between the end of a prompt and an answer.
    """

    key: str
    model: str
    template: ChatTemplate
    takes_system: bool
    blank: str = ""

    @classmethod
    def open(cls, folder: str | Path, key: str, model: str) -> "Chat":
        """Open the chat template in a resolved folder with its tokenizer, and try it."""
        return cls.of(read_chat_template(folder, key, model), key, model)

    @classmethod
    def of(cls, template: ChatTemplate, key: str, model: str) -> "Chat":
        """Try a template on a short conversation, with and without a turn of the system."""
        system, *plain = (
            Turn(role, (("text", _TRIAL),)) for role in ("system", "user", "assistant", "user")
        )
        chat = cls(key, model, template, True)
        try:
            segments = chat.wrap([system, *plain])
        except InputError:
            chat = cls(key, model, template, False)
            segments = chat.wrap(plain)
        *_, (_, answer), _, _, _ = segments  # before the last turn, and what is around it
        return replace(chat, blank=answer.removesuffix(_TRIAL))

    def turns(
        self,
        demonstrations: Iterable[tuple[Sequence[Segment], Segment]],
        query: Sequence[Segment],
        instruction: Segment | None = None,
        answer: str = "",
    ) -> list[Turn]:
        """The turns of a prompt, without white space at the ends of their contents.

        Demonstrations, in prompt order, are the segments that precede a label word, and the label
        word. ``answer`` is what precedes the label word in every answer. The instruction becomes
        the system's turn if the template accepts one there; otherwise it precedes the user's first
        turn, separated by an empty line.
        """
        spoken = []
        begin_of_answer = [(ANSWER, answer)] if answer else []
        for segments, label in demonstrations:
            spoken.append(Turn("user", _stripped(segments)))
            spoken.append(Turn("assistant", _stripped([*begin_of_answer, label])))
        spoken.append(Turn("user", _stripped(query)))
        if instruction is None:
            return spoken
        of_system = _stripped([instruction])
        if self.takes_system:
            return [Turn("system", of_system), *spoken]
        begin, *others = spoken
        return [Turn("user", (*of_system, (FORMAT, "\n\n"), *begin.segments)), *others]

    def wrap(self, turns: Sequence[Turn], where: str = "") -> list[Segment]:
        """One prompt of :meth:`wrap_all`."""
        return self.wrap_all([turns], [where])[0]

    def wrap_all(
        self, prompts: Sequence[Sequence[Turn]], where: Sequence[str] = (), answer: str = ""
    ) -> list[list[Segment]]:
        """The segments of prompts, with what the template writes around the turns' contents.

        The last turn of a prompt is the user's; ``answer``, with which every answer begins, follows
        it. A prompt's segments are those of its turns, and of :data:`FORMAT` around them. Joined,
        they are exactly what the template renders, and the beginning of the answer. ``where`` names
        the prompts in error sentences, as in "test text 3".

        A template is refused unless it leaves each content as it is, once, in order, and apart from
        the others, and ends the prompt where an answer begins.
        """
        roles = [tuple(turn.role for turn in turns) for turns in prompts]
        frames = {kind: self._frame(kind) for kind in dict.fromkeys(roles)}
        begun = [(ANSWER, self.blank + answer.lstrip())] if answer.strip() else []
        return [
            [*self._segments(turns, frames[kind], place), *begun]
            for turns, kind, place in zip(prompts, roles, where or [""] * len(prompts), strict=True)
        ]

    def _rendered(self, roles: Sequence[str], contents: Sequence[str], where: str = "") -> str:
        """What the template writes, up to where the assistant's next turn begins."""
        source = self.template.source
        if "strftime_now" in source and "date_string" not in source:
            raise self._refusal("asks for today's date (strftime_now)", where)
        spoken = zip(roles, contents, strict=True)
        messages = [{"role": role, "content": content} for role, content in spoken]
        variables = {**self.template.special_tokens, **VARIABLES}
        how = {"chat_template": source, "add_generation_prompt": True, "tokenize": False}
        try:
            text = _renderer().apply_chat_template(messages, **how, **variables)
        except Exception as error:  # a template can fail in any way
            reason = " ".join(str(error).split()) or type(error).__name__
            if type(error) is not TemplateError:
                raise self._refusal(f"fails ({reason})", where) from None
            lacking = self.takes_system and "system" not in roles
            remedy = "give the task an `instruction`" if lacking else ""
            raise self._refusal(f'refuses these turns ("{reason}")', where, remedy) from None
        assert isinstance(text, str)
        return text

    def _around(self, roles: Sequence[str]) -> tuple[str, ...]:
        """What is rendered before, between and after contents that occur nowhere else."""
        marks = [f"Xq{place:05}z" for place in range(len(roles))]  # no mark contains another
        text, any_mark = self._rendered(roles, marks), "|".join(marks)
        for mark, expected in zip_longest(re.findall(any_mark, text), marks):
            if mark != expected:
                written, wanted = (_content(m, marks, roles) for m in (mark, expected))
                raise self._difference(written, wanted)
        return tuple(re.split(any_mark, text))

    def _frame(self, roles: Sequence[str]) -> _Frame:
        """The text around contents; it must separate turns, and end where answers begin."""
        around = self._around(roles)
        blanks = [""] * len(roles)
        between: dict[tuple[str, str], set[str]] = defaultdict(set)  # text by the roles around it
        for place, pair in enumerate(pairwise(roles), 1):
            before, (last, role) = around[place], pair
            if last != "system" and not before.strip():
                raise self._difference(repr(before), f"a mark before {_turn(place, roles)}")
            if role == "assistant":
                blanks[place] = self._blanks(before, around[-1])
            between[pair].add(before)
        for before in between["assistant", "user"] & between["user", "assistant"]:
            raise self._difference(_excerpt(before), "another mark than the assistant's")
        return _Frame(around, tuple(blanks))

    def _blanks(self, before: str, end: str) -> str:
        """The spaces between the end of a prompt and an answer, given the text before an answer."""
        if before.startswith(end) and end.strip() and not before[len(end) :].strip(" "):
            return before[len(end) :]
        if end.startswith(before) and _EMPTY_BLOCK.fullmatch(end[len(before) :]):
            return ""
        follow = f"{_excerpt(before, end=True)}, which answers in the prompt follow,"
        raise self._difference(f"{_excerpt(end, end=True)} at the end of a prompt", follow)

    def _segments(self, turns: Sequence[Turn], frame: _Frame, where: str) -> list[Segment]:
        """The segments of one prompt; its rendered text must consist of exactly these."""
        contents = [turn.content for turn in turns]
        text = self._rendered([turn.role for turn in turns], contents, where)
        pairs = zip(frame.around, [*contents, ""], strict=True)
        expected = "".join(before + content for before, content in pairs)
        if text != expected:
            shorter = min(len(text), len(expected))
            same = next((k for k in range(shorter) if text[k] != expected[k]), shorter)
            raise self._difference(_excerpt(text[same:]), _excerpt(expected[same:]), where)
        found: list[Segment] = []
        for turn, before, blank in zip(turns, frame.around[:-1], frame.blanks, strict=True):
            (kind, first), *others = turn.segments
            found += [(FORMAT, before.removesuffix(blank)), (kind, blank + first), *others]
        return [*found, (FORMAT, frame.around[-1])]

    def _difference(self, written: str, expected: str, where: str = "") -> InputError:
        """The first difference between what the template writes and what a prompt needs."""
        return self._refusal(f"writes {written} where {expected} is expected", where)

    def _refusal(self, does: str, where: str = "", remedy: str = "") -> InputError:
        remedy = remedy or "choose another model"
        return InputError(
            f"{self.key}: {_of(where)}the chat template of model {self.model} {does}; {remedy}, or "
            'set "chat: false".'
        )


@functools.cache
def _renderer() -> "PreTrainedTokenizerBase":
    """A tokenizer without tokens, which renders any template; transformers is slow to import."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()))


def _stripped(segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """The segments without white space at the ends of their joined text."""
    texts = [text for _, text in segments]
    for order, strip in ((range(len(texts)), str.lstrip), (range(len(texts))[::-1], str.rstrip)):
        for place in order:
            texts[place] = strip(texts[place])
            if texts[place]:
                break
    return tuple((kind, text) for (kind, _), text in zip(segments, texts, strict=True))


def _content(mark: str | None, marks: Sequence[str], roles: Sequence[str]) -> str:
    return "nothing" if mark is None else f"the content of {_turn(marks.index(mark), roles)}"


def _turn(place: int, roles: Sequence[str]) -> str:
    return f"turn {place + 1} ({roles[place]})"


def _of(where: str) -> str:
    return f"for {where}, " if where else ""


def _excerpt(text: str, end: bool = False) -> str:
    """The text in quotes; only its beginning, or its end, if it is long."""
    if len(text) > _EXCERPT:
        text = f"…{text[-_EXCERPT:]}" if end else f"{text[:_EXCERPT]}…"
    return repr(text)
