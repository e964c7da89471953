"""Chat templates of well-known families."""

from anchorflow.model.tokenizer import ChatTemplate
from anchorflow.prepare.chat import Chat
from checkout import ROOT

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def template_of(name: str) -> str:
    return (ROOT / f"tests/tools/chat_templates/{name}.jinja").read_text(encoding="utf-8")


def chat_of(source: str) -> Chat:
    return Chat.of(ChatTemplate(source, TOKENS), "models.m.chat", "m")
