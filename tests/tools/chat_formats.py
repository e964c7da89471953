"""Chat templates of well-known families, rendered without a process of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from anchorflow.model.tokenizer import ChatTemplate
from anchorflow.prepare.chat import Chat
from anchorflow.prepare.chat_rendering import Message, Rendering, render_one
from checkout import ROOT

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def template_of(name: str) -> str:
    return (ROOT / f"tests/tools/chat_templates/{name}.jinja").read_text(encoding="utf-8")


def chat_of(source: str) -> Chat:
    return Chat.of(ChatTemplate(source, TOKENS), "models.m.chat", "m")


def render_here(
    template: str, variables: Mapping[str, Any], conversations: Sequence[Sequence[Message]]
) -> list[Rendering]:
    """As ``chat_rendering.render``, but in this process, to save time."""
    return [render_one(template, variables, messages) for messages in conversations]
