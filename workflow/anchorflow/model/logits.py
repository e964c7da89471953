"""Next-token logits at one position per prompt, and what a model answers by them.

Answers are scores and probabilities of the label words, and the most likely tokens. The output head
runs for no other positions and tokens than these.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import polars as pl
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import without_interventions
from anchorflow.model.batches import Batch, within_memory
from anchorflow.model.layers import embeddings_as_leaves, positions_from
from anchorflow.model.tokenizer import token_groups
from anchorflow.schemas.frames import keyed
from anchorflow.schemas.predictions import PREDICTIONS


@torch.no_grad()
def target_logits(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Next-token logits at the target position of each prompt, [B, vocabulary], float32."""
    with head_at(model, batch.target_rows):
        return _run(model, batch)


@torch.no_grad()
def target_label_logits(model: PreTrainedModel, batch: Batch) -> Tensor:
    """:func:`label_logits` without their graph."""
    return label_logits(model, batch, from_embeddings=False)


def label_logits(model: PreTrainedModel, batch: Batch, from_embeddings: bool = True) -> Tensor:
    """Logits of the label words at the target position of each prompt, with their autograd graph.

    The head runs for these positions and tokens only. The token embeddings are the leaves of the
    graph, so that gradients flow through every layer while all parameters stay frozen. Without
    ``from_embeddings``, an intervention provides the leaves. The result is [B, C], float32.
    """
    with (
        head_at(model, batch.target_rows),
        _head_for(model, batch.label_tokens),
        embeddings_as_leaves(model) if from_embeddings else contextlib.nullcontext(),
    ):
        return counted_once(_run(model, batch), batch.label_tokens)


@torch.no_grad()
def target_states(model: PreTrainedModel, batch: Batch) -> Tensor:
    """Final hidden states at the target position of each prompt, [B, hidden].

    The head does not run; :func:`answers_after` applies it.
    """
    with head_at(model, batch.target_rows), _before_head(model) as kept:
        _run(model, batch)
    return kept[0][:, 0]


def last_token_logits(
    model: PreTrainedModel, input_ids: Tensor, positions: Tensor, label_tokens: Tensor | None = None
) -> Tensor:
    """Logits after one token per example, the only one that is run.

    An active intervention has to provide what precedes it. The autograd graph, if any, is that of
    the interventions. ``input_ids`` and ``positions`` are [B]. The logits are [B, C] of the
    ``label_tokens`` or, by default, [B, vocabulary], float32, and may not be finite.
    """
    with contextlib.nullcontext() if label_tokens is None else _head_for(model, label_tokens):
        output = model(
            input_ids=input_ids[:, None], position_ids=positions[:, None], use_cache=False
        )
    logits: Tensor = output.logits[:, 0].float()
    return logits if label_tokens is None else counted_once(logits, label_tokens)


@torch.no_grad()
def last_token_states(model: PreTrainedModel, input_ids: Tensor, positions: Tensor) -> Tensor:
    """Final hidden states of one token per example, [B, hidden]; see :func:`answers_after`."""
    with _before_head(model) as kept:
        last_token_logits(model, input_ids, positions)
    return kept[0][:, 0]


@torch.no_grad()
def logits_after(model: PreTrainedModel, states: Tensor) -> Tensor:
    """Logits of final hidden states [N, hidden], with all that the model does to its logits.

    The model runs on one token, whose state is replaced before the head, so that its own code after
    the head (scaling, softcap) applies. The result is [N, vocabulary], float32.
    """

    def give(_: nn.Module, __: tuple[Tensor]) -> tuple[Tensor]:
        return (states[:, None],)

    any_token = torch.zeros(1, 1, dtype=torch.long, device=model.device)
    with model.get_output_embeddings().register_forward_pre_hook(give), without_interventions():
        output = model(input_ids=any_token, position_ids=any_token, use_cache=False)
    logits: Tensor = output.logits[:, 0].float()
    return logits


def of_label_words(logits: Tensor, label_tokens: Tensor) -> Tensor:
    """The logits of the label words' first tokens, [B, C] of [B, vocabulary]."""
    return counted_once(logits[:, label_tokens.to(logits.device)], label_tokens)


def counted_once(logits: Tensor, label_tokens: Tensor) -> Tensor:
    """Logits [B, C] of first tokens, where those of a token that labels share count once.

    The first of these labels has the token's logit; the probability of the others is 0.
    """
    same = label_tokens[:, None] == label_tokens
    repeated = same.tril(-1).any(1).to(logits.device)
    # The least number rather than -inf, which check_finite would reject.
    return logits.masked_fill(repeated, torch.finfo(logits.dtype).min)


def check_finite(logits: Tensor, examples: Sequence[int], reweighted: bool = False) -> None:
    """Raise InputError, naming an example, unless all logits are finite.

    A cause to name is re-weighted attention, if it is ``reweighted``.
    """
    if not torch.isfinite(logits.detach()).all():
        weights = ", or lower the learning rate of re-weighting" if reweighted else ""
        raise InputError(
            f"the model gives logits that are not finite for example {examples[0]} or its "
            f'neighbors; try "dtype: float32" for it, or bfloat16 instead of float16{weights}.'
        )


def _run(model: PreTrainedModel, batch: Batch) -> Tensor:
    output = model(
        input_ids=batch.input_ids,
        position_ids=positions_from(batch.input_ids, batch.first_position),
        use_cache=False,
    )
    logits: Tensor = output.logits[:, 0].float()
    check_finite(logits, batch.examples)
    return logits


@contextlib.contextmanager
def head_at(model: PreTrainedModel, positions: Tensor) -> Iterator[None]:
    """Give the output embeddings one position per example: [B, 1, hidden] of [B, T, hidden]."""

    def pick(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        (hidden,) = inputs
        at = positions.to(hidden.device)
        return (hidden[torch.arange(len(at), device=hidden.device), at].unsqueeze(1),)

    with model.get_output_embeddings().register_forward_pre_hook(pick):
        yield


@contextlib.contextmanager
def _head_for(model: PreTrainedModel, tokens: Tensor) -> Iterator[None]:
    """Let the output embeddings compute the logits of these tokens only, in this order."""
    head = model.get_output_embeddings()
    whole = dict(head.named_parameters(recurse=False))
    try:
        for name, parameter in whole.items():
            some = parameter[tokens.to(parameter.device)]
            setattr(head, name, nn.Parameter(some, requires_grad=False))
        yield
    finally:
        for name, parameter in whole.items():
            setattr(head, name, parameter)


@contextlib.contextmanager
def _before_head(model: PreTrainedModel) -> Iterator[list[Tensor]]:
    """Keep the inputs of the output embeddings, in order of the runs, and pass them no rows."""
    kept: list[Tensor] = []

    def keep(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        kept.append(inputs[0])
        return (inputs[0][:0],)

    with model.get_output_embeddings().register_forward_pre_hook(keep):
        yield kept


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

    def answer(some: Tensor) -> Answers:
        return Answers.of(logits_after(model, some), label_tokens, top_tokens)

    left, rows, parts = torch.cat(list(states)), _HEAD_ROWS, list[Answers]()
    while len(left):
        answers = within_memory(partial(answer, left[:rows]), smallest=rows == 1)
        parts += answers
        left, rows = (left[rows:], rows) if answers else (left, min(rows, len(left)) // 2 or 1)
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
    texts = [[tokenizer.decode([t], skip_special_tokens=False) for t in row] for row in tokens]
    probabilities = logits.softmax(-1).gather(1, answers.top_tokens).cpu().tolist()
    frame = predictions_of(batch, answers).with_columns(
        pl.Series("top_tokens", tokens),
        pl.Series("top_texts", texts),
        pl.Series("top_probabilities", probabilities),
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
