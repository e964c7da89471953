"""The wording of prompts: the characters around the texts and between the demonstrations.

A model can't read wording with control tokens in label words, or with characters that its tokenizer
doesn't know.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

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
        pieces = (("field" if i % 2 else "template", part) for i, part in enumerate(parts))
        if chat:
            chat_template = chat.template.source
        return cls(
            tuple(pieces), tuple(fields), instruction, separator, chat, chat_template=chat_template
        )

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
        :func:`~anchorflow.prepare.locating.build_prompt`; ``where`` names it in error sentences, as
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


def check_wording_tokens(
    name: str, tokenizer: Tokenizer, template: Template, labels: Sequence[str], model: str
) -> None:
    """Check that label words and the text around contents have tokens of their own.

    A label word may have no control token, and no wording characters that the tokenizer doesn't
    know.
    """
    control = control_tokens(tokenizer, template.chat_template).values()
    for word in labels:
        if found := next((written for written in control if written in word), None):
            raise InputError(
                f'{labels_key(name)}: for model {model}, "{word.strip()}" has the control token '
                f"{found!r}, which is no word; choose another one."
            )
    any_text = template.alike("x")
    for word in labels:
        segments = template.compose([([(any_text, word)], any_text)])[0]
        for kind, part in unknown_parts(tokenizer, template, segments):
            if kind == "field":
                continue
            key = labels_key(name) if kind == "label" else f"tasks.{task_of(name)}"
            what = {"label": "the label word", "instruction": "the instruction"}.get(
                kind, "the template or separator"
            )
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
    others = [separator for separator in _OTHERS if separator != template.separator]
    return [replace(template, separator=separator) for separator in others]
