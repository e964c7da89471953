"""Prompts whose label words have several tokens, and plain eager runs of them."""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import polars as pl
import torch
from pytest import MonkeyPatch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.layer_kinds import attention_layers
from tiny_models import shared_prompts

ENDS = [9, 19, 29]  # of the label words of shared_prompts
QUESTIONS = "Question: {text}\nAnswer Type:{label}"
KINDS = [" Abbreviation", " Entity", " Description"]


def with_words(prompts: pl.DataFrame, *tokens: Sequence[int]) -> pl.DataFrame:
    """Prompts of ``shared_prompts`` with label words of so many tokens.

    ``tokens`` are those of each demonstration, either for all prompts or for each in turn.
    """
    each = tokens if len(tokens) > 1 else tokens * len(prompts)
    firsts = [[end - n for end, n in zip(ENDS, row, strict=True)] for row in each]
    return prompts.with_columns(pl.Series("label_positions", firsts, dtype=pl.List(pl.Int64)))


def splitting_tokenizer() -> Tokenizer:
    """A byte-level BPE as in GPT-2, which splits words such as " Abbreviation" into tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    texts = ["Question: Who ate it?\nAnswer Type: Human\n", " Ab viation En ity De scription"]
    tokenizer.train_from_iterator(texts * 5, trainer)
    return tokenizer


WORDS = [[5], [11, 40, 7], [23, 9]]  # tokens of three label words
# From token ids to the logits [T, V] of a plain run, after each of them.
Logits = Callable[[list[int]], Tensor]


def with_word_tokens(prompts: pl.DataFrame) -> pl.DataFrame:
    """Prompts of ``shared_prompts`` whose label words, to be predicted, are those of ``WORDS``."""
    return prompts.with_columns(pl.Series("word_tokens", [WORDS] * len(prompts)))


def eager(model: PreTrainedModel) -> Logits:
    """Runs of a model with transformers' own eager attention."""
    return lambda token_ids: model(torch.tensor([token_ids]), use_cache=False).logits[0]


def plain_word_scores(
    logits_of: Logits, prompt: Sequence[int], words: Sequence[Sequence[int]], mean: bool = False
) -> Tensor:
    """Sum or mean of each word's log-probabilities [C], with the word appended to the prompt."""
    scores = []
    for word in words:
        logits = logits_of([*prompt, *word])[len(prompt) - 1 : -1]
        each = logits.log_softmax(-1).gather(1, torch.tensor(word)[:, None])
        scores.append(each.mean() if mean else each.sum())
    return torch.stack(scores)


def eager_compressed(
    model: PreTrainedModel, token_ids: Sequence[int], shared: int, kept: Sequence[int]
) -> Tensor:
    """Logits after the last token [V], as :func:`eager_compressed_logits`."""
    return eager_compressed_logits(model, token_ids, shared, kept)[-1]


def eager_compressed_logits(
    model: PreTrainedModel,
    token_ids: Sequence[int],
    shared: int,
    kept: Sequence[int],
    position_ids: Tensor | None = None,
) -> Tensor:
    """Logits after each token [T, V], if the query sees of the shared tokens those kept alone.

    The model has eager attention without a window; by default, all tokens keep their positions.
    """
    seen = torch.ones(len(token_ids), len(token_ids), dtype=torch.bool).tril()
    gone = sorted(set(range(shared)) - set(kept))
    seen[shared:, gone] = False
    mask = torch.zeros(1, 1, *seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
    with torch.no_grad():
        output = model(
            torch.tensor([token_ids]),
            attention_mask=mask,
            position_ids=position_ids,
            use_cache=False,
        )
    logits: Tensor = output.logits[0]
    return logits


@contextmanager
def eagerly_weighted(model: PreTrainedModel, factors: Tensor) -> Iterator[None]:
    """Multiply eager attention by factors [L, B, H, T, T] after its softmax."""
    module = importlib.import_module(type(model).__module__)
    eager: Callable[..., tuple[Tensor, Tensor]] = module.eager_attention_forward

    def weighted(
        layer: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *rest: object,
        **how: object,
    ) -> tuple[Tensor, Tensor]:
        _, attention = eager(layer, query, key, value, *rest, **how)
        places = attention_layers(model.config)
        attention = attention * factors[places.index(layer.layer_idx)]
        value = value.repeat_interleave(query.shape[1] // value.shape[1], 1)
        return (attention @ value).transpose(1, 2).contiguous(), attention

    with MonkeyPatch.context() as patch:
        patch.setattr(module, "eager_attention_forward", weighted)
        yield


POSITION_LISTS = (
    *("label_positions", "label_ends", "format_positions"),
    *("demonstration_starts", "demonstration_ends", "field_starts", "field_ends"),
    "merged_positions",
)


def with_instruction(prompts: pl.DataFrame, length: int = 3) -> pl.DataFrame:
    """The prompts with an instruction of so many tokens, and a separator, before demonstrations."""
    rows = prompts.to_dicts()
    for row in rows:
        at, added = row["demonstration_starts"][0], length + 1
        for name in ("tokens", "target_position", "query_start"):
            row[name] += added
        for name in POSITION_LISTS:
            row[name] = [p + added if p >= at else p for p in row[name]]
        row["format_positions"] = sorted([*row["format_positions"], at + length])
        row["token_ids"] = [*row["token_ids"][:at], *range(31, 31 + added), *row["token_ids"][at:]]
        row["instruction_end"] = at + length
    return pl.DataFrame(rows, schema=prompts.schema)


ALIKE = [[5], [11, 40, 7], [11, 9]]  # two of which begin with the same token


def alike_prompts() -> pl.DataFrame:
    """Prompts whose demonstrations show ``ALIKE``."""
    table = with_words(shared_prompts([5, 17, 9]), [1, 3, 2])
    ids = [row.copy() for row in table["token_ids"].to_list()]
    for row in ids:
        for end, word in zip((9, 19, 29), ALIKE, strict=True):
            row[end - len(word) : end] = word
    return table.with_columns(
        token_ids=pl.Series(ids),
        label_tokens=pl.Series([[word[0] for word in ALIKE]] * len(ids)),
        word_tokens=pl.Series([ALIKE] * len(ids)),
    )


def apart(table: pl.DataFrame) -> pl.DataFrame:
    """The prompts with one label for the two whose words begin with the same token."""
    return table.with_columns(
        label=pl.col("label").replace({2: 1}),
        label_tokens=pl.Series([[5, 11]] * len(table)),
        demonstration_labels=pl.Series([[0, 1, 1]] * len(table)),
    )
