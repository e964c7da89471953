"""The wording of prompts, and where each part of it is once a prompt is tokenized.

The whole prompt is tokenized at once; the character offsets of each token then determine the
segment it belongs to. Token ids are never searched for, so texts may contain anything, including
the template's own words and label words.

A model can't read wording with control tokens in label words, or with characters that its tokenizer
doesn't know.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from anchorflow.config.cell_names import labels_key, task_of
from anchorflow.config.errors import InputError
from anchorflow.config.text_fields import FIELD_SEPARATOR, TEXT
from anchorflow.prepare.chat import Chat
from anchorflow.prepare.control_tokens import (
    CONTENTS,
    Segment,
    Tokenizer,
    control_tokens,
    encode,
    unknown_token,
)

SEPARATOR = "\n"  # between demonstrations, if the task names no other
_OTHERS = ("\n", "\n\n", " ", "\n\n\n", "; ", " | ")  # to try where labels have other tokens


# Demonstrations (text and label word), and the query.
PromptTexts = tuple[Sequence[tuple[str, str]], str]


@dataclass(frozen=True)
class Template:
    """The wording of prompts: the characters around a text's fields and around demonstrations."""

    pieces: tuple[tuple[str, str], ...]  # ("template", characters) and ("field", name), in turn
    fields: tuple[str, ...] = (TEXT,)  # in the order in which a text joins them
    instruction: str = ""  # before the first demonstration, followed by the separator
    separator: str = SEPARATOR
    chat: Chat | None = None  # writes the text around demonstrations, instead of the separator
    answer: str = ""  # in a chat, what every answer begins with
    chat_template: str = ""  # the model's, in any format: what it names is no text

    @classmethod
    def parse(
        cls,
        template: str,
        fields: Sequence[str] = (TEXT,),
        instruction: str = "",
        separator: str = SEPARATOR,
        chat: Chat | None = None,
        chat_template: str = "",
    ) -> "Template":
        r"""Split ``"Review: {text}\nSentiment:{label}"`` at the placeholders of its fields."""
        placeholder = rf"\{{({'|'.join(map(re.escape, fields))})\}}"
        parts = re.split(placeholder, template.removesuffix("{label}"))
        pieces = tuple(("field" if i % 2 else "template", part) for i, part in enumerate(parts))
        chat_template = chat.template.source if chat else chat_template
        return cls(pieces, tuple(fields), instruction, separator, chat, "", chat_template)

    @property
    def field_names(self) -> list[str]:
        """The fields in the order of the prompt."""
        return [name for kind, name in self.pieces if kind == "field"]

    def segments(self, text: str) -> list[Segment]:
        """The segments of a demonstration before its label word, which are those of a query."""
        contents = dict(zip(self.fields, self.contents(text), strict=True))
        return [(kind, contents[part] if kind == "field" else part) for kind, part in self.pieces]

    def lengthened(self, ending: str) -> "Template":
        """The template with more characters before the label word."""
        if self.chat:
            return replace(self, answer=self.answer + ending)
        *before, (kind, last) = self.pieces
        return replace(self, pieces=(*before, (kind, last + ending)))

    def contents(self, text: str) -> list[str]:
        """The contents of a text's fields; a single field may contain the separator itself."""
        return text.split(FIELD_SEPARATOR) if len(self.fields) > 1 else [text]

    def compose(
        self, prompts: Sequence[PromptTexts], where: Sequence[str] = ()
    ) -> list[list[Segment]]:
        """The segments of each prompt, which joined are its whole text.

        A prompt is given by its demonstrations and query, as in
        :func:`~anchorflow.prepare.template.build_prompt`; ``where`` names it in error sentences, as
        in "test text 3".
        """
        instruction = [("instruction", self.instruction)] if self.instruction else []
        if self.chat:
            turns = [
                self.chat.turns(
                    [(self.segments(text), ("label", word)) for text, word in demonstrations],
                    self.segments(query),
                    instruction[0] if instruction else None,
                    self.answer,
                )
                for demonstrations, query in prompts
            ]
            return self.chat.wrap_all(turns, where, self.answer)
        between = ("separator", self.separator)
        composed = []
        for demonstrations, query in prompts:
            segments = [*instruction, between] if instruction else []
            for text, word in demonstrations:
                segments += [*self.segments(text), ("label", word), between]
            composed.append([*segments, *self.segments(query)])
        return composed

    def alike(self, content: str) -> str:
        """The text in which every field has the same content."""
        return FIELD_SEPARATOR.join([content] * len(self.fields))


class Wording(NamedTuple):
    """What the prompts of a task are written with, for a model.

    ``name`` is the task's, or that of a cell with other label words, such as ``reviews+symbols``.
    """

    name: str
    tokenizer: Tokenizer
    template: Template
    labels: Sequence[str]
    model: str


def check_wording_tokens(wording: Wording) -> None:
    """Check that label words and the text around contents have tokens of their own.

    A label word may have no control token, and no wording characters that the tokenizer doesn't
    know.
    """
    name, tokenizer, template, labels, model = wording
    control = control_tokens(tokenizer, template.chat_template).values()
    for word in labels:
        if found := next((written for written in control if written in word), None):
            raise InputError(
                f'{labels_key(name)}: for model {model}, "{word.strip()}" has the control token '
                f"{found!r}, which is no word; choose another one."
            )
    any_text = template.alike("x")
    whats = {"label": "the label word", "instruction": "the instruction"}
    for word in labels:
        segments = template.compose([([(any_text, word)], any_text)])[0]
        for kind, part in unknown_parts(tokenizer, template, segments):
            if kind != "field":
                key = labels_key(name) if kind == "label" else f"tasks.{task_of(name)}"
                what = whats.get(kind, "the template or separator")
                raise InputError(
                    f"{key}: for model {model}, {what} {part.strip(' ')!r} has characters that the "
                    "tokenizer doesn't know; write it otherwise."
                )


def unknown_parts(
    tokenizer: Tokenizer, template: Template, segments: Sequence[Segment]
) -> list[Segment]:
    """The segments of a prompt with characters that the tokenizer replaces by its unknown token."""
    unknown = unknown_token(tokenizer)
    if unknown is None:
        return []
    encoding = encode(tokenizer, segments, template.chat_template, template.chat is not None)
    places = [
        span
        for token, span in zip(encoding.ids, encoding.offsets, strict=True)
        if token == unknown and span[0] < span[1]
    ]
    found, reached = [], 0
    for kind, part in segments:
        end = reached + len(part)
        if kind in (*CONTENTS, "template", "separator", "answer") and any(
            first < end and reached < last for first, last in places
        ):
            found.append((kind, part))
        reached = end
    return found


def separators_to_try(template: Template) -> list[Template]:
    """The template with other separators; none in a chat, which has no separator."""
    if template.chat:
        return []
    return [replace(template, separator=s) for s in _OTHERS if s != template.separator]


@dataclass(frozen=True)
class Prompt:
    """One tokenized prompt; all positions are token indices into ``token_ids``.

    ``label_positions``: first token of each label word, increasing. ``label_ends``: the token after
    the last one that has a character of the label word. ``target_position``: the last token.
    ``format_positions``: tokens made only of template and separator characters, and special tokens
    such as BOS. ``instruction_end``: the token after the last one that has a character of the
    instruction. ``field_starts``, ``field_ends``: of the fields of each demonstration, then of the
    query, see :func:`_field_spans`. ``merged_positions``: tokens with characters of a text and of
    the template, other than spaces.
    """

    token_ids: list[int]
    label_positions: list[int]
    label_ends: list[int]
    target_position: int
    format_positions: list[int]
    demonstration_starts: list[int]
    demonstration_ends: list[int]
    query_start: int
    instruction_end: int | None
    field_names: list[str]
    field_starts: list[int]
    field_ends: list[int]
    merged_positions: list[int]


class PromptError(InputError):
    """A prompt in which a label word has no tokens of its own."""


class _Text:
    """A whole prompt, with the character span of each segment."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.text = "".join(part for _, part in segments)
        ends = list(accumulate(len(part) for _, part in segments))
        self.spans = [
            (kind, end - len(part), end) for (kind, part), end in zip(segments, ends, strict=True)
        ]

    def of_kind(self, *kinds: str) -> list[int]:
        """Indices of the segments of these kinds."""
        return [index for index, (found, _, _) in enumerate(self.spans) if found in kinds]

    def segments_of(self, offsets: Sequence[tuple[int, int]]) -> list[range]:
        """Indices of the segments that each token covers; empty for tokens without characters."""
        ends = [last for _, _, last in self.spans]
        return [
            range(bisect_right(ends, first), bisect_right(ends, last - 1) + 1)
            if last > first
            else range(0)
            for first, last in offsets
        ]

    def is_merged(self, offset: tuple[int, int], covered: range) -> bool:
        """Whether a token has characters of a text and of the template, other than spaces."""
        kinds = {self.spans[segment][0] for segment in covered}
        of_template = "".join(
            self.text[max(first, offset[0]) : min(last, offset[1])]
            for kind, first, last in self.spans[covered.start : covered.stop]
            if kind not in CONTENTS
        )
        return "field" in kinds and bool(of_template.strip(" "))

    def token_at(self, offsets: Sequence[tuple[int, int]], segment: int, default: int) -> int:
        """The first token of a segment, to which only spaces before it may be merged."""
        start = self.spans[segment][1]
        found = (
            token
            for token, (first, last) in enumerate(offsets)
            if max(first, start) < last and not self.text[first:start].strip(" ")
        )
        return next(found, default)

    def with_leading_spaces(self, offsets: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        """The offsets, each from the end of the previous token if only spaces are in between.

        Some tokenizers, such as GPT-NeoX's, leave a token's leading spaces out of its offsets.
        """
        whole, reached = [], 0
        for first, last in offsets:
            spaces = not self.text[reached:first].strip(" ")
            whole.append((reached if first > reached and spaces else first, last))
            reached = max(reached, last)
        return whole


def build_prompt(
    tokenizer: Tokenizer, template: Template, demonstrations: Sequence[tuple[str, str]], query: str
) -> Prompt:
    """Tokenize demonstrations and query and locate every segment.

    Demonstrations are texts and label words, in prompt order; a label word includes its leading
    space. If the template has several fields, a text joins them by U+001F.
    """
    return locate(tokenizer, template, template.compose([(demonstrations, query)])[0])


def locate(tokenizer: Tokenizer, template: Template, segments: Sequence[Segment]) -> Prompt:
    """Tokenize a prompt, given as :meth:`Template.compose` does, and locate every segment."""
    whole = _Text(segments)
    # A demonstration begins with the template's first piece, and so does the query.
    start_segments = whole.of_kind("template", "field")[:: len(template.pieces)]

    encoding = encode(tokenizer, segments, template.chat_template, template.chat is not None)
    offsets = whole.with_leading_spaces(encoding.offsets)
    segments_of = whole.segments_of(offsets)
    if not segments_of:
        raise PromptError(
            f"the tokenizer makes no tokens of {whole.text!r}; choose another template."
        )
    if not segments_of[-1]:
        raise PromptError(
            f"the tokenizer ends every prompt with a special token ({encoding.ids[-1]}), after "
            "which no label word follows; save the tokenizer without it (add_eos_token=False)."
        )
    begins_in = [min(covered, default=None) for covered in segments_of]
    label_segments = whole.of_kind("label")
    for segment in label_segments:
        _, first, last = whole.spans[segment]
        if any(begin < first < end for begin, end in offsets) or segment not in begins_in:
            raise PromptError(
                f"the label word {whole.text[first:last]!r} is merged with what precedes it into "
                "one token; begin it with a space, or end the template with a colon."
            )
    last = len(offsets) - 1  # also the start of an empty query that is merged with the separator
    if label_segments and label_segments[-1] in segments_of[last]:
        _, first, end = whole.spans[label_segments[-1]]
        raise PromptError(
            f"the label word {whole.text[first:end]!r} is merged with the query after it into one "
            "token; choose another separator."
        )
    begins = [whole.token_at(offsets, segment, last) for segment in start_segments]
    label_positions = [begins_in.index(segment) for segment in label_segments]
    instructions = {*whole.of_kind("instruction")}
    fields = len(template.fields)
    field_segments = whole.of_kind("field")
    field_spans = [
        span
        for k, (begin, end) in enumerate(zip(begins, [*label_positions, last + 1], strict=True))
        for span in _field_spans(
            segments_of, field_segments[k * fields : (k + 1) * fields], begin, end
        )
    ]
    return Prompt(
        token_ids=list(encoding.ids),
        label_positions=label_positions,
        label_ends=[
            max(t for t, covered in enumerate(segments_of) if segment in covered) + 1
            for segment in label_segments
        ],
        target_position=last,
        format_positions=[
            t
            for t, covered in enumerate(segments_of)
            if not any(whole.spans[s][0] in CONTENTS for s in covered)
        ],
        demonstration_starts=begins[:-1],
        demonstration_ends=begins[1:],
        query_start=begins[-1],
        instruction_end=max(
            (t + 1 for t, covered in enumerate(segments_of) if instructions & {*covered}), default=0
        )
        if template.instruction
        else None,
        field_names=template.field_names,
        field_starts=[start for start, _ in field_spans],
        field_ends=[end for _, end in field_spans],
        merged_positions=[
            t for t, covered in enumerate(segments_of) if whole.is_merged(offsets[t], covered)
        ],
    )


def _field_spans(
    segments_of: Sequence[range], fields: Sequence[int], begin: int, end: int
) -> list[tuple[int, int]]:
    """First token of each field of a demonstration, and the token after its last.

    The fields' segments are in prompt order; the demonstration begins at token ``begin``, and its
    label word at ``end``. A token that spans several fields belongs to the first of them. A field
    without tokens is where the next field begins, or else at ``end``.
    """
    first_field = [
        next((s for s in segments_of[token] if s in fields), None) for token in range(begin, end)
    ]
    spans: list[tuple[int, int]] = []
    following = end
    for segment in reversed(fields):
        tokens = [begin + t for t, s in enumerate(first_field) if s == segment]
        spans.append((tokens[0], tokens[-1] + 1) if tokens else (following, following))
        following = spans[-1][0]
    return spans[::-1]
