"""Wording that a model can't read: control tokens in label words, and characters without tokens."""

from collections.abc import Sequence
from dataclasses import replace

from anchorflow.config.cell_names import labels_key, task_of
from anchorflow.config.errors import InputError
from anchorflow.prepare.control_tokens import (
    CONTENTS,
    Segment,
    Tokenizer,
    control_tokens,
    encode,
    unknown_token,
)
from anchorflow.prepare.template import Template

_SEPARATORS = ("\n", "\n\n", " ", "\n\n\n", "; ", " | ")


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
    others = [separator for separator in _SEPARATORS if separator != template.separator]
    return [replace(template, separator=separator) for separator in others]
