"""What a model answers: scores and probabilities of the label words, and the most likely tokens."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.config.errors import is_out_of_memory
from anchorflow.model.batches import Batch, release_memory
from anchorflow.model.logits import check_finite, logits_after, of_label_words
from anchorflow.model.tokenizer import token_groups
from anchorflow.schemas.frames import keyed
from anchorflow.schemas.predictions import PREDICTIONS

TOP_TOKENS = 5  # most likely tokens that predictions list
_HEAD_ROWS = 64  # states in one pass of the head; more are hardly faster per state
_COLUMNS = 2**15  # tokens of the vocabulary whose exponentials are in memory at once


class Answers(NamedTuple):
    """Next-token logits reduced to what measurements need; float32, one prompt per row."""

    label_logits: Tensor  # [B, C], of the label words' first tokens
    scores: Tensor  # [B, C], label probabilities are their softmax: these logits, or whole words'
    top_tokens: Tensor  # [B, K], the most likely tokens, best first
    largest: Tensor  # [B], largest absolute logit; not finite if any logit is not
    label_mass: Tensor  # [B], probability of the label words' first tokens in the whole vocabulary
    in_labels: Tensor  # [B], bool: whether no token is likelier than the likeliest of these

    @classmethod
    def of(cls, logits: Tensor, label_tokens: Tensor, top_tokens: int) -> "Answers":
        """From logits [B, vocabulary] and token ids of the label words [C]."""
        of_labels = of_label_words(logits, label_tokens)
        top = logits.topk(top_tokens)
        likeliest = top.values[:, :1]

        def total(some: Tensor) -> Tensor:  # relative to the likeliest token's probability
            return (some - likeliest).exp().sum(-1)

        whole = torch.stack([total(part) for part in logits.split(_COLUMNS, -1)]).sum(0)
        return cls(
            of_labels,
            of_labels,
            top.indices,
            logits.abs().amax(-1),
            total(of_labels) / whole,
            of_labels.amax(-1) == likeliest[:, 0],
        )


@torch.no_grad()
def answers_after(
    model: PreTrainedModel, states: Sequence[Tensor], label_tokens: Tensor, top_tokens: int
) -> list[Answers]:
    """Apply the output head to the final hidden states of several runs.

    For a few prompts, the head takes as long as reading its weights, which for a large vocabulary
    is longer than several layers take. The runs therefore share its passes. If memory runs out,
    passes get fewer rows. ``states``, each [B, hidden], are from :func:`target_states` or
    :func:`last_token_states`.
    """
    if not states:
        return []
    left, rows, parts = torch.cat(list(states)), _HEAD_ROWS, []
    while len(left):
        try:
            answers = Answers.of(logits_after(model, left[:rows]), label_tokens, top_tokens)
        except (RuntimeError, MemoryError) as error:
            if rows == 1 or not is_out_of_memory(error):
                raise
        else:
            parts.append(answers)
            left = left[rows:]
            continue
        # Not in the handler, where the error still references what the pass has computed.
        rows = min(rows, len(left)) // 2 or 1
        release_memory()
    sizes = [len(of_run) for of_run in states]
    split = [torch.cat(field).split(sizes) for field in zip(*parts, strict=True)]
    return [Answers(*fields) for fields in zip(*split, strict=True)]


def prediction_frame(
    batch: Batch,
    logits: Tensor,
    tokenizer: Tokenizer,
    keys: Mapping[str, str | int],
    scores: Tensor | None = None,
) -> pl.DataFrame:
    """``PREDICTIONS`` of one batch, from logits [B, vocabulary] and the label words' scores [B, C].

    By default, scores are the logits of the label words' first tokens.
    """
    answers = Answers.of(logits, batch.label_tokens, TOP_TOKENS)
    if scores is not None:
        answers = answers._replace(scores=scores)
    tokens = answers.top_tokens.cpu().tolist()
    frame = predictions_of(batch, answers).with_columns(
        pl.Series("top_tokens", tokens),
        pl.Series(
            "top_texts",
            [
                [tokenizer.decode([token], skip_special_tokens=False) for token in row]
                for row in tokens
            ],
        ),
        pl.Series(
            "top_probabilities", logits.softmax(-1).gather(1, answers.top_tokens).cpu().tolist()
        ),
    )
    groups = token_groups(batch.label_tokens.tolist())
    return keyed(frame, {**keys, "token_groups": groups}, PREDICTIONS)


def predictions_of(batch: Batch, answers: Answers) -> pl.DataFrame:
    """:func:`label_predictions` of the answers' scores, ``label_mass``, and ``in_labels``."""
    return label_predictions(batch, answers.scores).with_columns(
        label_mass=pl.Series(answers.label_mass.tolist()),
        in_labels=pl.Series(answers.in_labels.tolist()),
    )


def label_predictions(batch: Batch, scores: Tensor) -> pl.DataFrame:
    """True label, prediction and label probabilities of each example of one batch.

    ``scores``, [B, C], are those of the label words, such as the logits of their first tokens.
    """
    check_finite(scores, batch.examples)
    probabilities = scores.softmax(-1).cpu()
    return pl.DataFrame(
        {
            "example": batch.examples,
            "label": batch.labels.tolist(),
            "prediction": probabilities.argmax(-1).tolist(),
            "probabilities": probabilities.tolist(),
        }
    )
