"""Weights β for attention to label words, fitted to a few training texts ([A] §3.1).

Attention from the target to the label word of demonstration i resembles the class probability of
a logistic regression without fitted weights ([A] eq. 6). Re-weighting adds such weights as exp(β),
one per layer, head, and demonstration, and fits them by gradient descent while the model is
frozen. Only the target's attention row changes, so each step runs one token per text
(``last_tokens.py``), with the same result as full prompts.
"""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
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
)
from anchorflow.model.batches import LabelWords
from anchorflow.model.last_tokens import LastTokens
from anchorflow.model.prefix import KeepKeys
from anchorflow.model.word_scores import Ended, Words
from anchorflow.random_draws import generator


class Reweight:
    """The intervention A_l^h(q, p) ← exp(β_{l,h,i}) · A_l^h(q, p) for all tokens p of label word i.

    Applied after the softmax, without renormalization.

    Parameters
    ----------
    beta : [L, H, N]
        β of every layer, query head, and demonstration; may require a gradient.
    rows : [B], int
        The target's query row in each example.
    label_keys : LabelWords
        The keys of all tokens of each demonstration's label word.

    Source: Wang et al. 2023, eq. 9.
    """

    def __init__(self, beta: Tensor, rows: Tensor, label_keys: LabelWords) -> None:
        self._beta, self._rows, self._label_keys = beta, rows, label_keys

    @classmethod
    def last(cls, beta: Tensor, tokens: LastTokens, row: int = 0) -> "Reweight":
        """Re-weighting for prompts of which only the last token is run, or tokens after it."""
        return cls(beta, tokens.rows + row, tokens.label_keys)

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output, [B, H, T, D], with Σ_i (exp β_i - 1) Σ_p A(q, p) v_p added at q."""
        output = attention(call)
        rows, words = self._rows.to(output.device), self._label_keys.to(output.device)
        row = attention_rows(call, rows[:, None])[:, :, 0]  # [B, H, K]
        factor = torch.expm1(self._beta[call.layer].to(output.device))  # [H, N]
        extra = (words.each(row) * factor[..., None]).flatten(2)  # [B, H, N · W]
        values = call.values_at(words.at.flatten(1)).float()  # [B, G, N · W, D]
        added = (extra.unflatten(1, (values.shape[1], -1)) @ values).flatten(1, 2)
        at = (torch.arange(len(rows), device=output.device), rows)
        by_token = output.transpose(1, 2).index_put(at, added.to(output.dtype), accumulate=True)
        return by_token.transpose(1, 2)


def label_scores(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Tensor | None = None,
    words: Words | None = None,
    *observing: Intervention,
) -> Tensor:
    """Scores of the label words, of which the label probabilities are the softmax.

    Parameters
    ----------
    beta : [L, H, N], optional
        β, which re-weights the attention of every token that predicts one of a label word: of the
        target, and for whole words, of their tokens but the last.
    words : Words, optional
        Whole label words to score.
    observing
        Interventions that observe the target's attention.

    Returns
    -------
    Tensor
        [B, C], float32, with the autograd graph of β: logits of the label words' first tokens, or
        scores of the whole words in nats.
    """
    if words is not None:
        return scores_and_logits(model, tokens, beta, words, *observing)[0]
    with intervene(tokens, *observing, *_weighted(beta, tokens)):
        return tokens.logits(model)


def scores_and_logits(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Tensor | None = None,
    words: Words | None = None,
    *observing: Intervention,
) -> tuple[Tensor, Tensor]:
    """Like :func:`label_scores`, and next-token logits at the target, [B, vocabulary]."""
    kept = KeepKeys()
    keeping = [] if words is None else [kept]
    with intervene(*keeping, tokens, *observing, *_weighted(beta, tokens)):
        logits = tokens.vocabulary_logits(model)
    if words is None:
        return logits[:, tokens.label_tokens.to(logits.device)], logits

    def on_rows(count: int) -> list[Reweight]:
        return [each for row in range(count) for each in _weighted(beta, tokens, row)]

    return words.scores(model, Ended.last(model, tokens, kept), logits, on_rows), logits


def _weighted(beta: Tensor | None, tokens: LastTokens, row: int = 0) -> list[Reweight]:
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
        """Raise InputError if a value is out of range."""
        for name, value, least in (
            ("learning_rate", self.learning_rate, "more than 0"),
            ("epochs", self.epochs, "at least 1"),
            ("batch_size", self.batch_size, "at least 0"),
        ):
            if value < 0 or (value == 0 and name != "batch_size"):
                raise InputError(f"{name}: {value} should be {least}.")

    def fit(
        self,
        model: PreTrainedModel,
        training: LastTokens,
        random: np.random.Generator,
        words: Words | None = None,
    ) -> tuple[Tensor, list[Step]]:
        """Fit β to the cross-entropy of the true label among the label words.

        Parameters
        ----------
        random : numpy.random.Generator
            Shuffles the training texts in every epoch.
        words : Words, optional
            Whole label words, whose scores are then fitted instead of first tokens ([A]).

        Returns
        -------
        tuple
            β as [L, H, N], float32, on the CPU; and the steps in order.

        Raises
        ------
        DivergenceError
            If the loss is not finite, before a step or after the last one.

        Source: Wang et al. 2023, eq. 10.
        """
        config = model.config.get_text_config()
        shape = (
            config.num_hidden_layers,
            config.num_attention_heads,
            training.label_positions.shape[1],
        )
        beta = torch.zeros(shape, device=training.labels.device, requires_grad=True)
        optimizer = torch.optim.Adam([beta], lr=self.learning_rate)
        steps: list[Step] = []
        for epoch in range(self.epochs):
            for rows in self._batches(random.permutation(training.size)):
                some = training.select(torch.tensor(rows, device=training.labels.device))
                loss = cross_entropy(label_scores(model, some, beta, words), some.labels)
                optimizer.zero_grad()
                loss.backward()
                steps.append(Step(epoch, len(steps), loss.item()))
                self._check(steps[-1].loss, len(steps), epoch)
                optimizer.step()
        self._check(loss_under(model, training, beta.detach(), words), len(steps), self.epochs - 1)
        return beta.detach().cpu(), steps

    def _check(self, loss: float, step: int, epoch: int) -> None:
        if not np.isfinite(loss):
            raise DivergenceError(
                f"with the learning rate {self.learning_rate:g} the loss is no longer finite in "
                f"step {step} (epoch {epoch + 1}); lower the rate, or if it is step 1 already, try "
                '"dtype: float32" for the model.'
            )

    def _batches(self, order: np.ndarray) -> Iterator[np.ndarray]:
        size = self.batch_size or len(order)
        for start in range(0, len(order), size):
            yield order[start : start + size]


@torch.no_grad()
def loss_under(
    model: PreTrainedModel, tokens: LastTokens, beta: Tensor, words: Words | None = None
) -> float:
    """Mean cross-entropy of the true labels among the label words, in nats."""
    return cross_entropy(label_scores(model, tokens, beta, words), tokens.labels).item()


class Trial(NamedTuple):
    """A fit to one half of the training texts, evaluated on the held-out half."""

    learning_rate: float
    fold: int
    steps: list[Step]
    loss: float  # mean over the held-out texts; infinite if the fit diverged


def cross_validate(
    model: PreTrainedModel,
    training: LastTokens,
    descent: Descent,
    seed: int,
    task: str,
    words: Words | None = None,
) -> list[Trial]:
    """Fit to each half of the training texts and evaluate on the other half.

    The halves are balanced: per label, they differ by at most one text.
    """
    by_label = training.labels.argsort(stable=True)
    trials = []
    for fold in (0, 1):
        learned = training.select(by_label[1 - fold :: 2])
        steps: list[Step] = []
        loss = np.inf
        with contextlib.suppress(DivergenceError):
            random = generator(seed, task, "reweighting", fold)
            beta, steps = descent.fit(model, learned, random, words)
            loss = loss_under(model, training.select(by_label[fold::2]), beta, words)
        trials.append(
            Trial(descent.learning_rate, fold, steps, loss if np.isfinite(loss) else np.inf)
        )
    return trials


class Fit(NamedTuple):
    """A fitted β, how it was fitted, and the trials that selected the learning rate."""

    beta: Tensor  # [L, H, N], float32
    descent: Descent
    steps: list[Step]
    trials: list[Trial]  # two for each learning rate; none if there is only one rate


def fit_reweighting(
    model: PreTrainedModel,
    training: LastTokens,
    spec: Mapping[str, Any],
    seed: int,
    task: str,
    words: Words | None = None,
) -> Fit:
    """Fit β to all training texts, with the learning rate that is best on held-out texts.

    Several rates are compared by their loss on held-out halves of the training texts; a rate that
    diverges there is not selected.

    Parameters
    ----------
    spec : mapping
        ``learning_rates``, ``epochs``, and ``batch_size``, as in the configuration.
    words : Words, optional
        Whole label words to fit the scores of.

    Raises
    ------
    InputError
        If every rate diverges, or the selected rate diverges on the full training set.
    """
    descents = [
        Descent(rate, spec["epochs"], spec["batch_size"]) for rate in spec["learning_rates"]
    ]
    trials: list[list[Trial]] = []
    best = descents[0]
    if len(descents) > 1:
        trials = [
            cross_validate(model, training, descent, seed, task, words) for descent in descents
        ]
        losses = [np.mean([trial.loss for trial in halves]) for halves in trials]
        best = descents[int(np.argmin(losses))]
    try:
        beta, steps = best.fit(model, training, generator(seed, task, "reweighting"), words)
    except DivergenceError as error:
        raise InputError(f"reweighting.learning_rates: for tasks.{task}, {error}") from None
    return Fit(beta, best, steps, [trial for halves in trials for trial in halves])


def fit_further_rates(
    model: PreTrainedModel,
    training: LastTokens,
    spec: Mapping[str, Any],
    chosen: Fit,
    seed: int,
    task: str,
    words: Words | None = None,
) -> dict[float, Fit]:
    """Fit β to all training texts with each of ``further_rates``, whatever held-out texts say.

    The texts come in the same order as for the ``chosen`` fit, which is taken over for its rate.

    Raises
    ------
    InputError
        If a rate diverges.
    """
    fits = {chosen.descent.learning_rate: chosen}
    for rate in spec["further_rates"]:
        if rate not in fits:
            descent = Descent(rate, spec["epochs"], spec["batch_size"])
            try:
                random = generator(seed, task, "reweighting")
                beta, steps = descent.fit(model, training, random, words)
            except DivergenceError as error:
                raise InputError(f"reweighting.further_rates: for tasks.{task}, {error}") from None
            fits[rate] = Fit(beta, descent, steps, [])
    return {rate: fits[rate] for rate in spec["further_rates"]}
