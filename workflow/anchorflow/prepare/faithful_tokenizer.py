"""Whether a loaded tokenizer makes the tokens that a model's folder describes.

transformers builds many tokenizers anew, from the vocabulary and the class that
``tokenizer_config.json`` names. If that is the class of another model, texts get other tokens.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from anchorflow.config.errors import InputError
from anchorflow.model.tokenizer import TOKENIZER
from anchorflow.prepare.checkpoint import OF_HUB
from anchorflow.prepare.control_tokens import control_tokens

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
