"""A random sentence encoder in sentence-transformers' format, and a plain reference for it."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import BertProcessing
from torch import Tensor
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, PreTrainedTokenizerFast

LIMIT = 32  # tokens that the encoder reads of a text

_SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def tiny_encoder(folder: Path) -> Path:
    """Make the encoder, a Bert that reads letter by letter and averages, unless it is there."""
    if (folder / "modules.json").is_file():
        return folder
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,!?'-:;"
    words = [*_SPECIAL.values(), *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(
        WordPiece({word: place for place, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = BertNormalizer()
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_SPECIAL).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=LIMIT,
        initializer_range=0.3,
    )
    BertModel(config).save_pretrained(folder)
    pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.{kind}"}
        for place, (path, kind) in enumerate(
            [("", "models.Transformer"), ("1_Pooling", "models.Pooling")]
        )
    ]
    (folder / "1_Pooling").mkdir()
    for name, content in (
        ("1_Pooling/config.json", pooling),
        ("sentence_bert_config.json", {"max_seq_length": LIMIT, "do_lower_case": False}),
        ("modules.json", modules),
    ):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


@torch.no_grad()
def plain_embedding(folder: Path, text: str) -> Tensor:
    """One text's embedding without sentence-transformers: mean over tokens, then unit length."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    encoded = tokenizer(text, truncation=True, max_length=LIMIT, return_tensors="pt")
    hidden = AutoModel.from_pretrained(folder).eval()(**encoded).last_hidden_state[0]
    mean = hidden.mean(0)
    return mean / mean.norm()
