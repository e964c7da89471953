"""A model's tokenizer and architecture, resolved once and without its weights.

transformers builds many tokenizers anew, from the vocabulary and the class that
``tokenizer_config.json`` names. If that is the class of another model, texts get other tokens, so
the loaded tokenizer is compared with the one that the model's folder describes.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from anchorflow.config.errors import InputError
from anchorflow.model.architectures import check_architecture
from anchorflow.model.attention_function import known_positions
from anchorflow.model.cost import log_run
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.size import weight_bytes
from anchorflow.model.tokenizer import ARCHITECTURE, CHAT_TEMPLATE, TOKENIZER, ChatTemplate
from anchorflow.prepare.adapter import adapter_directory, read_adapter
from anchorflow.prepare.checkpoint import OF_HUB, model_directory, reading, without_origin
from anchorflow.prepare.control_tokens import control_tokens
from anchorflow.prepare.quantized_weights import quantization_of
from anchorflow.store.cell import Cell
from anchorflow.store.checksums import fingerprints, write_json
from anchorflow.store.replacing import replacing

CONFIGURATION = "tokenizer_config.json"
_MISTRAL = ("mistral", "mistral3", "voxtral", "ministral", "pixtral")  # as transformers has them
_PROBES = (
    "The quick brown fox, isn't it? It's 1234567890: 3.14 and 2024-01-31!",
    "Review: A  film   with    blanks\tand\n\nline\r\nbreaks \nSentiment: Positive",
    " begins with a blank and ends with two  ",
    "UPPER lower CamelCase snake_case kebab-case e-mail@example.org https://example.org/?q=1&r=2#s",
    "“quotes” ‘and’ — dashes … « » ¿ ¡ € £ ½ ² x² ™",
    "Zażółć gęślą jaźń, naïve café, Ελληνικά, Русский, עברית, العربية, हिन्दी, ไทย",
    "e\u0301 u\u0308 \u212b ﬁ Ⅳ ｆｕｌｌ",
    "中文字符，日本語のテキスト、한국어 문장",
    "😀👍🏽 👨‍👩‍👧 🇪🇺 \u200b\u200d\ufeff\u00a0\u3000",
    "def f(x):\n    return {'a': [1, 2], \"b\": x ** 2}  # <b>HTML</b> & [brackets] {text}{label}",
    "\x00\x01\x7f",
)


def resolve_tokenizer(name: str, settings: Mapping[str, Any], folder: str | Path) -> None:
    """Save a model's tokenizer and its architecture's configuration, without its weights.

    ``folder`` becomes a directory with ``config.json`` of the architecture, ``tokenizer.json``,
    ``architecture.json`` with the numbers of layers, heads and tokens that stages need, and
    ``chat_template.json`` if the model comes with a chat template. Weights in a quantized format
    that is not dequantized, and adapters that are not merged, are refused here already.
    """
    if "adapter" in settings:
        read_adapter(name, settings, adapter_directory(name, settings["adapter"], weights=False))
    with model_directory(name, settings, weights=False) as (directory, gguf):
        with reading(name, directory):
            config = AutoConfig.from_pretrained(directory, trust_remote_code=False, **gguf)
            check_architecture(name, config)
        quantization_of(name, config)  # refuses what can't be dequantized
        with reading(name, directory):
            weight_bytes(config, torch.float32)  # builds the model without allocating its weights
        with reading(name, directory):
            tokenizer = AutoTokenizer.from_pretrained(directory, trust_remote_code=False, **gguf)
        if not tokenizer.is_fast:
            raise InputError(
                f"models.{name}: its tokenizer gives no character offsets, which locate positions; "
                "choose a model with a fast tokenizer (tokenizer.json)."
            )
        with reading(name, directory):
            if gguf:
                from anchorflow.prepare.gguf_files import follow  # where gguf is installed

                if follow(name, directory / gguf["gguf_file"], tokenizer.backend_tokenizer):
                    tokenizer.add_bos_token = True
            check_faithful(name, directory, config, tokenizer)
        check_within(name, config, tokenizer.backend_tokenizer)
        with replacing(folder) as temporary:
            temporary.mkdir()
            without_origin(config).save_pretrained(temporary)
            tokenizer.backend_tokenizer.save(str(temporary / TOKENIZER))
            chat = chat_template_of(tokenizer)
            if chat:
                write_json(temporary / CHAT_TEMPLATE, vars(chat))
            text = config.get_text_config()
            heads = text.num_attention_heads
            architecture = {
                "architecture": config.model_type,
                "layers": text.num_hidden_layers,
                "query_heads": heads,
                "key_value_heads": getattr(text, "num_key_value_heads", None) or heads,
                "context": context_of(text),
                "files": fingerprints(temporary.iterdir()),
            }
            attending = attention_layers(config)
            if len(attending) < text.num_hidden_layers:
                architecture["attention_layers"] = attending
            write_json(temporary / ARCHITECTURE, architecture)


def context_of(config: PretrainedConfig) -> int:
    """The maximum number of tokens in a prompt.

    Some rotary embeddings change all frequencies once a prompt exceeds the length that the model
    was first trained on; the same token would then differ from prompt to prompt. Llama 4 scales
    queries from a position on, counted within what is run at once.
    """
    longest = known_positions(config)
    if getattr(config, "attn_temperature_tuning", False):
        longest = min(longest, config.floor_scale - 1)
    rotary = getattr(config, "rope_parameters", None) or {}
    if rotary.get("rope_type") not in ("longrope", "dynamic"):
        return longest
    key = "original_max_position_embeddings"
    return min(longest, rotary.get(key) or getattr(config, key, None) or longest)


def chat_template_of(tokenizer: PreTrainedTokenizerBase) -> ChatTemplate | None:
    """The tokenizer's chat template, the ``default`` one if there are several; None without one.

    transformers has read it from ``chat_template.jinja``, ``tokenizer_config.json`` or
    the metadata of a GGUF file.
    """
    source = tokenizer.chat_template
    if isinstance(source, dict):
        source = source.get("default")
    if not isinstance(source, str) or not source.strip():
        return None
    return ChatTemplate(source, dict(tokenizer.special_tokens_map))


def check_faithful(
    name: str, directory: Path, config: PretrainedConfig, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Compare a loaded tokenizer's tokens with those of the folder's ``tokenizer.json``.

    The texts are probes of many scripts, and all words of the vocabulary.
    """
    path, said = directory / TOKENIZER, _configured(directory)
    if _repaired(name, directory, config, said) or not path.is_file():
        return
    written, loaded = Tokenizer.from_file(str(path)), tokenizer.backend_tokenizer
    written.no_truncation()
    written.no_padding()
    bos_is_said = {"add_bos_token", "add_eos_token"} & said.keys()
    for text in (*_PROBES, *_words(written)):
        for special in (False, not bos_is_said):
            ids = [t.encode(text, add_special_tokens=special).ids for t in (written, loaded)]
            if ids[0] != ids[1]:
                raise InputError(
                    f"models.{name}: its tokenizer is loaded as {type(tokenizer).__name__}, which "
                    f"makes other tokens than {path} does, as of {text[:20]!r}; if that file is "
                    f'right, write "tokenizer_class": "PreTrainedTokenizerFast" into '
                    f"{directory / CONFIGURATION}{OF_HUB}."
                )


def check_within(name: str, config: PretrainedConfig, tokenizer: Tokenizer) -> None:
    """Check that the embedding has a row for every token that a text can have."""
    rows = config.get_text_config().vocab_size
    control = control_tokens(tokenizer)  # some models have them for images, which they lack
    beyond = {t: i for t, i in tokenizer.get_vocab().items() if i >= rows and i not in control}
    if beyond:
        token = min(beyond, key=beyond.__getitem__)
        raise InputError(
            f"models.{name}: its tokenizer has the token {token!r} with id {beyond[token]} and "
            f"{len(beyond) - 1} others that its embedding of {rows} rows lacks; the tokenizer is "
            "another model's, or the embedding has to be resized (resize_token_embeddings)."
        )


def _configured(directory: Path) -> dict[str, Any]:
    path = directory / CONFIGURATION
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _words(tokenizer: Tokenizer) -> Iterator[str]:
    """All words of the vocabulary, by hundreds."""
    size = tokenizer.get_vocab_size()
    for begin in range(0, size, 100):
        yield " ".join(tokenizer.decode([t]) for t in range(begin, min(begin + 100, size)))


def _repaired(name: str, directory: Path, config: PretrainedConfig, said: dict[str, Any]) -> bool:
    """Whether transformers repairs the regular expression of this Mistral tokenizer.

    The folder has to say whether it should.
    """
    if config.model_type not in _MISTRAL or said.get("fix_mistral_regex") is False:
        return False
    plain, repaired = (
        AutoTokenizer.from_pretrained(directory, trust_remote_code=False, **more)
        for more in ({"fix_mistral_regex": False}, {"fix_mistral_regex": True})
    )
    if str(plain.backend_tokenizer.pre_tokenizer) == str(repaired.backend_tokenizer.pre_tokenizer):
        return False
    if said.get("fix_mistral_regex") is True:
        return True
    raise InputError(
        f"models.{name}: transformers takes the regular expression in {directory / TOKENIZER} for "
        f'a wrong one of Mistral\'s; write "fix_mistral_regex": true into '
        f"{directory / CONFIGURATION} to repair it, or false to keep it{OF_HUB}."
    )


def prepare(job: Cell) -> None:
    """Save the tokenizer and the architecture of one model, and estimate the run's time."""
    model, folder = job.wildcards.model, job.output[0]
    resolve_tokenizer(model, job.spec, folder)
    log_run(job.config, model, folder)
