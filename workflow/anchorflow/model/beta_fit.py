"""Weights β for attention to label words, fitted to a few training texts ([A] §3.1).

Attention from the target to the label word of demonstration i resembles the class probability of
a logistic regression without fitted weights ([A] eq. 6). Re-weighting adds such weights as exp(β),
one per layer, head, and demonstration, and fits them by gradient descent while the model is
frozen. Only the target's attention row changes, so each step runs one token per text
(``last_tokens.py``), with the same result as full prompts. Such a step takes about as long as
reading all weights, so all fits of one cell run side by side, whether their texts see the whole
demonstrations or the anchors alone: one pass over the weights is one step of every fit.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    Intervention,
    attention_rows,
    intervene,
    mixed_rows,
)
from anchorflow.model.batches import LabelWords, within_memory
from anchorflow.model.last_tokens import Ended, LastTokens, Words, together
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.logits import Answers, answers_after
from anchorflow.model.prefix import KeepKeys
from anchorflow.model.routing import Directions, Route, Routing
from anchorflow.random_draws import generator

# β, [L, H, N] or [B, L, H, N], or the coefficients of another way to change attention.
Weights = Tensor | Routing


class Reweight:
    """The intervention A_l^h(q, p) ← exp(β_{l,h,i}) · A_l^h(q, p) for all tokens p of label word i.

    Applied after the softmax, without renormalization. ``beta``, [L, H, N] for all examples or
    [B, L, H, N] for each, may require a gradient. ``rows``, [B], are the target's query rows, and
    ``label_keys`` all tokens of each demonstration's label word.

    Source: Wang et al. 2023, eq. 9.
    """

    def __init__(self, beta: Tensor, rows: Tensor, label_keys: LabelWords) -> None:
        self._beta, self._rows, self._label_keys = beta, rows, label_keys

    @classmethod
    def last(cls, beta: Tensor, tokens: LastTokens, row: int = 0) -> "Reweight":
        """Re-weighting for prompts of which only the last token is run, or tokens after it."""
        return cls(beta, tokens.rows + row, tokens.label_keys)

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output, [B, H, T, D], changed in the target's row only.

        If that is the only row, it is computed here, so no intervention may follow this one.
        """
        rows = self._rows.to(call.query.device)
        words = self._label_keys.to(call.query.device)
        # [H, N] or [B, H, N]
        # What exp(β) adds to the factor 1, exact for small β.
        factor = torch.expm1(self._beta[..., call.layer, :, :].to(call.query.device))
        weights = attention_rows(call, rows[:, None])  # [B, H, 1, K]
        more = (words.each(weights[:, :, 0]) * factor[..., None]).flatten(2)  # [B, H, N · W]
        at = words.at.flatten(1)[:, None].expand_as(more)
        changed = weights.scatter_add(3, at[:, :, None], more[:, :, None])
        row = mixed_rows(call, changed)  # [B, H, 1, D]
        if call.query.shape[2] == 1:
            return row
        targets = (torch.arange(len(rows), device=rows.device), rows)
        return attention(call).transpose(1, 2).index_put(targets, row[:, :, 0]).transpose(1, 2)


def label_scores(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Weights | None = None,
    words: Words | None = None,
) -> Tensor:
    """Scores of the label words; the label probabilities are their softmax.

    ``beta``, [L, H, N] or [B, L, H, N], re-weights the attention of every token that predicts a
    token of a label word: the target and, for whole words, each of their tokens but the last. The
    scores, [B, C], float32, with the autograd graph of β, are logits of the label words' first
    tokens or, with ``words``, scores of the whole words in nats.
    """
    if words is not None:
        return _scores_and_logits(model, tokens, beta, words)[0]
    with intervene(tokens, *_weighted(beta, tokens)):
        return tokens.logits(model)


@torch.no_grad()
def answers_under(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Weights | None,
    words: Words | None,
    top_tokens: int,
    *observing: Intervention,
) -> Answers:
    """The model's answers, whose scores are those of :func:`label_scores`.

    ``observing`` are interventions that observe the target's attention.
    """
    if words is None:
        states = reweighted_states(model, tokens, beta, *observing)
        (answers,) = answers_after(model, [states], tokens.label_tokens, top_tokens)
        return answers
    scores, logits = _scores_and_logits(model, tokens, beta, words, *observing)
    return Answers.of(logits, tokens.label_tokens, top_tokens)._replace(scores=scores)


def _scores_and_logits(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Weights | None,
    words: Words,
    *observing: Intervention,
) -> tuple[Tensor, Tensor]:
    """Scores of whole words, and next-token logits at the target, [B, vocabulary]."""
    kept, weighted = KeepKeys(), _weighted(beta, tokens)
    with intervene(kept, tokens, *observing, *weighted):
        logits = tokens.vocabulary_logits(model)

    def on_rows(count: int) -> list[Intervention]:
        return [reweight for row in range(count) for reweight in _weighted(beta, tokens, row)]

    return words.scores(model, Ended.last(model, tokens, kept, weighted), logits, on_rows), logits


def reweighted_states(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Weights | None = None,
    *observing: Intervention,
) -> Tensor:
    """Final hidden states at the target under β, [B, hidden]; see :func:`answers_after`."""
    with intervene(tokens, *observing, *_weighted(beta, tokens)):
        return tokens.states(model)


def _weighted(beta: Weights | None, tokens: LastTokens, row: int = 0) -> list[Intervention]:
    if isinstance(beta, Routing):
        return [Route(beta, tokens.rows + row)]
    return [] if beta is None else [Reweight.last(beta, tokens, row)]


class DivergenceError(InputError):
    """The loss is no longer finite."""


class Step(NamedTuple):
    """One step of gradient descent, with the loss before it."""

    epoch: int
    step: int
    loss: float


@dataclass(frozen=True)
class Descent:
    """Hyperparameters of the fit, which uses Adam and starts from β = 0."""

    learning_rate: float
    epochs: int
    batch_size: int  # 0: all training texts at once

    def __post_init__(self) -> None:
        least = {"learning_rate": "more than 0", "epochs": "at least 1", "batch_size": "at least 0"}
        for name, value in vars(self).items():
            if value < 0 or (value == 0 and name != "batch_size"):
                raise InputError(f"{name}: {value} should be {least[name]}.")

    def fit(
        self,
        model: PreTrainedModel,
        training: LastTokens,
        random: np.random.Generator,
        words: Words | None = None,
    ) -> tuple[Tensor, list[Step]]:
        """Fit β to the cross-entropy of the true label among the label words.

        With ``words``, the scores of whole words are fitted instead of first tokens ([A]). β is
        [L, H, N], float32, on the CPU, and comes with the steps in order. DivergenceError is raised
        if the loss is not finite, before a step or after the last one.
        """
        every = torch.arange(training.size, device=training.labels.device)
        (fitted,) = fit_side_by_side(model, training, [Planned(self, every, random)], words)
        if fitted.diverged:
            raise fitted.diverged
        return fitted.beta, fitted.steps

    def batches(self, rows: Tensor, random: np.random.Generator) -> Iterator[tuple[int, Tensor]]:
        """The epoch and the training texts of every step, in order."""
        size = self.batch_size or len(rows)
        for epoch in range(self.epochs):
            order = torch.tensor(random.permutation(len(rows)), device=rows.device)
            for some in order.split(size):
                yield epoch, rows[some]


class Planned(NamedTuple):
    """A fit to some of the training texts."""

    descent: Descent
    rows: Tensor  # [n], int: which of the training texts
    random: np.random.Generator  # shuffles them in every epoch


class Fitted(NamedTuple):
    beta: Tensor  # [L, H, N], float32, on the CPU
    steps: list[Step]  # in order, up to the one whose loss was not finite
    diverged: DivergenceError | None = None


class _Running:
    """A fit under way: its β, its Adam, and the steps so far."""

    def __init__(self, planned: Planned, start: Tensor) -> None:
        self.rate = planned.descent.learning_rate
        self.beta = start.to(planned.rows.device, copy=True).requires_grad_()
        self.optimizer = torch.optim.Adam([self.beta], lr=self.rate)
        self.batches = planned.descent.batches(planned.rows, planned.random)
        self.steps: list[Step] = []
        self.diverged: DivergenceError | None = None

    def check(self, loss: float) -> None:
        """Mark the fit as diverged if the loss before or after its last step is not finite."""
        if not np.isfinite(loss):
            self.diverged = DivergenceError(
                f"with the learning rate {self.rate:g} the loss is no longer finite in step "
                f"{len(self.steps)} (epoch {self.steps[-1].epoch + 1}); lower the rate, or if it "
                'is step 1 already, try "dtype: float32" for the model.'
            )


def fit_side_by_side(
    model: PreTrainedModel,
    training: LastTokens,
    plans: Sequence[Planned],
    words: Words | None = None,
    directions: Directions | None = None,
) -> list[Fitted]:
    """Run several fits of β to subsets of the same texts; one pass is one step of every fit.

    Each fit has its own β, state of Adam, and order of texts, and takes the same steps as it would
    alone, up to rounding. A fit that diverges ends; the others continue. If memory runs out, fewer
    fits share a pass. All training texts have the same demonstrations. With ``words``, the scores
    of whole words are fitted instead of first tokens ([A]). With ``directions``, the coefficients
    of :class:`Routing` take the place of β.

    Source: Wang et al. 2023, eq. 10.
    """
    count = training.label_positions.shape[1]
    heads = model.config.get_text_config().num_attention_heads
    start = torch.zeros(len(attention_layers(model.config)), heads, count)
    start = start if directions is None else directions.start(heads)
    fits = [_Running(planned, start) for planned in plans]
    at_once = len(fits)
    while current := [
        (fit, *batch) for fit in fits if not fit.diverged and (batch := next(fit.batches, None))
    ]:
        losses: list[float] = []
        while len(losses) < len(current):
            some = current[len(losses) :][:at_once]
            descend = partial(_descend, model, training, some, words, directions)
            ran = within_memory(descend, smallest=len(some) == 1)
            for found in ran:
                losses += found
            if not ran:
                at_once = len(some) // 2
        for (fit, epoch, _), loss in zip(current, losses, strict=True):
            fit.steps.append(Step(epoch, len(fit.steps), loss))
            fit.check(loss)
            if not fit.diverged:
                fit.optimizer.step()
    for fit, planned in zip(fits, plans, strict=True):
        if not fit.diverged:  # unless its last step made it diverge
            learned = training.select(planned.rows)
            fitted = _as_weights(fit.beta.detach(), directions)
            fit.check(loss_under(model, learned, fitted, words))
    return [Fitted(fit.beta.detach().cpu(), fit.steps, fit.diverged) for fit in fits]


def _as_weights(beta: Tensor, directions: Directions | None) -> Weights:
    return beta if directions is None else Routing(beta, directions)


def _descend(
    model: PreTrainedModel,
    training: LastTokens,
    current: Sequence[tuple[_Running, int, Tensor]],
    words: Words | None,
    directions: Directions | None,
) -> list[float]:
    """Run fits on their next texts, [B] rows each: their losses; sets the gradient of each β."""
    sizes = [len(rows) for _, _, rows in current]
    some = training.select(torch.cat([rows for _, _, rows in current]))
    fit_of_row = torch.arange(len(current), device=some.labels.device)
    fit_of_row = fit_of_row.repeat_interleave(torch.tensor(sizes, device=fit_of_row.device))
    for fit, _, _ in current:
        fit.optimizer.zero_grad()
    beta = torch.stack([fit.beta for fit, _, _ in current])[fit_of_row]
    scores = label_scores(model, some, _as_weights(beta, directions), words)
    losses = [
        cross_entropy(of_fit, labels)
        for of_fit, labels in zip(scores.split(sizes), some.labels.split(sizes), strict=True)
    ]
    # Each loss depends on one β alone, so the sum gives every β the gradient of its own loss.
    torch.stack(losses).sum().backward()
    return [loss.item() for loss in losses]


@torch.no_grad()
def loss_under(
    model: PreTrainedModel, tokens: LastTokens, beta: Weights, words: Words | None = None
) -> float:
    """Mean cross-entropy of the true labels among the label words, in nats."""
    return cross_entropy(label_scores(model, tokens, beta, words), tokens.labels).item()


class Trial(NamedTuple):
    """A fit to one half of the training texts, evaluated on the held-out half."""

    learning_rate: float
    fold: int
    steps: list[Step]
    loss: float  # mean over the held-out texts; infinite if the fit diverged


class Fit(NamedTuple):
    """A fitted β, how it was fitted, and the trials that selected the learning rate."""

    beta: Tensor  # [L, H, N], float32; or coefficients in its place
    descent: Descent
    steps: list[Step]
    trials: list[Trial]  # two for each learning rate; none if there is only one rate
    further: Mapping[float, Fitted]  # by learning rate, regardless of the held-out loss


def fit_reweighting(
    model: PreTrainedModel,
    caches: Sequence[LastTokens],
    spec: Mapping[str, Any],
    seed: int,
    task: str,
    words: Words | None = None,
    further_rates: Sequence[float] = (),
    directions: Directions | None = None,
) -> list[Fit]:
    """Fit β to all training texts, with the learning rate that is best on held-out texts.

    Several rates are compared by their loss on held-out halves of the training texts; a rate that
    diverges there is not selected. All fits run side by side, on every cache. Every rate is also
    fitted to all texts at the same time, so that no fit has to wait for the selection.

    ``caches`` are the same training texts after one prefix, of which they see everything or, in a
    second cache, the anchors alone; there is one fit per cache. With ``further_rates``, β is also
    fitted to all training texts on the first cache, in the same order of texts. With ``words``, the
    scores of whole words are fitted instead of first tokens; with ``directions``, the coefficients
    of :class:`Routing` instead of β.
    """
    training = together(caches)
    rates: list[float] = list(spec["learning_rates"])
    plans: dict[tuple[int, float, int | None], Planned] = {}
    begin = 0
    for number, cache in enumerate(caches):
        every = torch.arange(begin, begin + cache.size, device=training.labels.device)
        begin += cache.size
        # In halves that are balanced: per label, they differ by at most one text.
        by_label = every[cache.labels.argsort(stable=True)]
        folds = {0: by_label[1::2], 1: by_label[0::2]} if len(rates) > 1 else {}
        whole = dict.fromkeys([*rates, *(further_rates if number == 0 else ())])
        for rate, fold in [*product(rates, folds), *product(whole, [None])]:
            descent = Descent(rate, spec["epochs"], spec["batch_size"])
            random = generator(seed, task, "reweighting", *([] if fold is None else [fold]))
            rows = every if fold is None else folds[fold]
            plans[number, rate, fold] = Planned(descent, rows, random)
    done = fit_side_by_side(model, training, list(plans.values()), words, directions)
    fitted = dict(zip(plans, done, strict=True))

    def trials_of(number: int) -> Iterator[Trial]:
        for (cache, rate, fold), fit in fitted.items():
            if cache == number and fold is not None:
                held_out = plans[number, rate, 1 - fold].rows
                loss = float(np.inf)
                if not fit.diverged:
                    beta = _as_weights(fit.beta.to(held_out.device), directions)
                    loss = loss_under(model, training.select(held_out), beta, words)
                yield Trial(rate, fold, fit.steps, loss if np.isfinite(loss) else float(np.inf))

    fits = []
    for number in range(len(caches)):
        trials = list(trials_of(number))
        losses = [
            np.mean([trial.loss for trial in trials if trial.learning_rate == rate] or [0.0])
            for rate in rates
        ]
        best = rates[int(np.argmin(losses))]
        further = {rate: fitted[0, rate, None] for rate in (further_rates if number == 0 else ())}
        where, otherwise = _ANCHORS if number else ("", "")
        for key, named in (("learning_rates", [best]), ("further_rates", further)):
            for diverged in [fitted[number, rate, None].diverged for rate in named]:
                if diverged:
                    sentence = str(diverged).removesuffix(".")
                    raise InputError(
                        f"reweighting.{key}: for tasks.{task}{where}, {sentence}{otherwise}."
                    )
        beta, steps, _ = fitted[number, best, None]
        fits.append(Fit(beta, plans[number, best, None].descent, steps, trials, further))
    return fits


# For error sentences about fits on the second cache: which fit is meant, and how to omit it.
_ANCHORS = (", with the anchors alone kept", ", or leave hidden_anchor out of compression.methods")


def beta_of(table: pl.DataFrame) -> torch.Tensor:
    """β as [L, H, N], float32, from ``BETA`` of one model, task, and seed."""
    order = ("layer", "head", "demonstration")
    shape = [0 if table.is_empty() else table[name].n_unique() for name in order]
    return torch.tensor(table.sort(order)["beta"].to_list(), dtype=torch.float32).reshape(shape)
