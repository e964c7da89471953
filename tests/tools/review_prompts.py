"""Prompts of reviews: a template, texts, samples, and tokenizers of several kinds."""

from collections.abc import Callable, Sequence
from functools import cache

import polars as pl
from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from anchorflow.prepare.template import Template
from stub_tokenizers import StubTokenizer

SPACED = StubTokenizer(r" ?\w+|\s|.")

TEMPLATE = Template.parse("Review: {text}\nSentiment:{label}")

LABELS = [" Negative", " Positive"]

CORPUS = [
    "Review: a fine film, at last\nSentiment: Positive\n",
    "Review: dull and long\nSentiment: Negative\n",
    "Question: Who was it?\nAnswer Type: Person\n",
    "the film is a film of the year, and it is long: Negative reviews, Positive answers",
] * 5

TEXTS = [
    "a fine film",
    "two\nlines\n\nand more",
    "Review: a film\nSentiment: Positive\nReview: another\nSentiment:",
    "Positive",
    " Negative Positive",
    "{text} and {label} and {",
    "so good 😀👩‍👧 e\u0301\u0323 naïve",
    "\u0301 begins with an accent",
    "  two  blanks   within and after  ",
    "ends with a newline\n",
    "<s> <unk> </s>",
    "a:",
    "\t\r\n",
]


def byte_level(bos: bool, trim: bool) -> Tokenizer:
    """A byte-level BPE as in GPT-2; ``trim`` leaves blanks out of the offsets, as in GPT-NeoX."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    offsets = processors.ByteLevel(add_prefix_space=False, trim_offsets=trim)
    start = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.post_processor = processors.Sequence([offsets, start]) if bos else offsets
    return tokenizer


def _sentencepiece(model: str) -> Tokenizer:
    """Blanks as "▁" in front of words, and a BOS, as in Llama 2 (BPE) and T5 (Unigram)."""
    specials = ["<s>", "</s>", "<unk>"]
    if model == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    else:
        words = ["▁Positive", "▁Negative", "▁fi", "lm", "Review", "Senti", "ment", "▁and"]
        pieces = [(piece, -4.0) for piece in words] + [(c, -9.0) for c in "▁\n:abcdefilmnorstuvw"]
        vocabulary = [*((special, 0.0) for special in specials), *pieces]
        tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=2, byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex("[\n:]"), "isolated"),
            pre_tokenizers.Metaspace(prepend_scheme="first"),
        ]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    if model == "bpe":
        trainer = trainers.BpeTrainer(vocab_size=200, special_tokens=specials, show_progress=False)
        tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(specials)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return tokenizer


def _normalizing(steps: list[normalizers.Normalizer]) -> Tokenizer:
    """A BPE that changes the text first and falls back to bytes, as in Llama 2."""
    specials = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(steps)
    trainer = trainers.BpeTrainer(vocab_size=450, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    return tokenizer


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    "byte-level": lambda: byte_level(bos=False, trim=False),
    "byte-level with BOS": lambda: byte_level(bos=True, trim=False),
    "byte-level, offsets without blanks": lambda: byte_level(bos=False, trim=True),
    "byte-level with BOS, offsets without blanks": lambda: byte_level(bos=True, trim=True),
    "sentencepiece BPE": lambda: _sentencepiece("bpe"),
    "sentencepiece Unigram": lambda: _sentencepiece("unigram"),
}

NORMALIZING: dict[str, Callable[[], Tokenizer]] = {
    "sentencepiece BPE with NFKC": lambda: _normalizing([normalizers.NFKC()]),
    "blanks replaced before tokenization": lambda: _normalizing(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    ),
}

BYTE_LEVEL = [name for name in MAKERS if name.startswith("byte-level")]


@cache
def trained(name: str) -> Tokenizer:
    return (MAKERS | NORMALIZING)[name]()


def samples(
    texts: Sequence[str], shown: Sequence[tuple[str, int]] = (("dull", 0), ("fine", 1))
) -> pl.DataFrame:
    """One fixed-protocol sample per text, with the same demonstrations of these labels."""
    shown_texts, labels = zip(*shown, strict=True)
    return pl.DataFrame(
        {"example": range(10, 10 + len(texts)), "text": texts}, schema_overrides={"text": pl.String}
    ).select(
        pl.lit("reviews").alias("task"),
        pl.lit(4).alias("seed"),
        pl.lit("fixed").alias("demonstrations"),
        pl.all(),
        pl.lit(1).alias("label"),
        pl.lit([*range(3, 3 + len(shown))]).alias("demonstration_rows"),
        pl.lit([*shown_texts]).alias("demonstration_texts"),
        pl.lit([*labels]).alias("demonstration_labels"),
    )


PAIRS = Template.parse(
    "Premise: {premise}\nHypothesis: {hypothesis}\nAnswer:{label}",
    ("premise", "hypothesis"),
    "Does it follow?",
    "\n\n",
)
