"""Transformers' eager attention, observed and changed at its softmax: a reference for any model.

Nothing of anchorflow takes part, and nothing of an architecture is named. Every eager attention
takes the softmax of a matrix of scores, query tokens by keys, after its own mask, scale, position
biases, and sinks. There, keys can be hidden and weights be read, multiplied, and differentiated.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from transformers import PreTrainedModel

_SOFTMAX = (torch.softmax, nn.functional.softmax, Tensor.softmax)
_LOG_SUM_EXP = (torch.logsumexp, Tensor.logsumexp)
_SIGMOID = (torch.sigmoid, Tensor.sigmoid)
# By the order in which layers attend, a mask or factors that broadcast to [H, T, T].
Hidden = Callable[[int, int], Tensor]
Factors = Callable[[int, int], Tensor]


class PlainSoftmax(TorchFunctionMode):
    """Keeps A [H, T, T] of every layer that attends, and changes it as requested.

    ``hidden(layer, heads)`` is true at keys that are hidden in addition, before the softmax;
    ``factors(layer, heads)`` multiply the weights after it, without renormalization. Layers are
    counted among those that attend. A sink's weight, after the last key, is neither kept nor
    changed. Some architectures have no such column, and scale the output by what a sink leaves,
    the sigmoid of the scores' log-sum-exp above the sink's score.
    """

    def __init__(
        self, tokens: int, hidden: Hidden | None = None, factors: Factors | None = None
    ) -> None:
        super().__init__()
        self._tokens, self._hidden, self._factors = tokens, hidden, factors
        self._whole: list[Tensor] = []
        self._left: dict[int, Tensor | None] = {}  # by a sink, [1, H, T], in layers that scale

    @property
    def weights(self) -> list[Tensor]:
        """A [H, T, T] of every layer that attended, in order."""
        weights = [self._of_keys(whole) for whole in self._whole]
        for layer, left in self._left.items():
            assert left is not None
            weights[layer] = weights[layer] * left[0, :, :, None]
        return weights

    def significance(self) -> list[Tensor]:
        """Σ_h A_h ⊙ ∂L/∂A_h of every layer, [T, T], after a backward pass."""
        parts = [self._of_keys(whole * whole.grad) for whole in self._whole]
        return [part.detach().sum(0) for part in parts]

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs, layer = kwargs or {}, len(self._whole)
        if func in _SIGMOID and self._left.get(layer, args) is None:
            self._left[layer] = func(*args, **kwargs)
            return self._left[layer]
        if func not in (*_SOFTMAX, *_LOG_SUM_EXP) or not self._attends(args[0]):
            return func(*args, **kwargs)
        scores = self._without_hidden(args[0], layer)
        if func in _LOG_SUM_EXP:
            self._left[layer] = None
            return func(scores, *args[1:], **kwargs)
        weights = func(scores, *args[1:], **kwargs)
        if weights.requires_grad:
            weights.retain_grad()
        self._whole.append(weights)
        if self._factors is None:
            return weights
        heads, sinks = self._heads_and_sinks(weights)
        factors = self._factors(layer, heads).expand(heads, self._tokens, self._tokens)
        return weights * nn.functional.pad(factors, (0, sinks), value=1.0)

    def _without_hidden(self, scores: Tensor, layer: int) -> Tensor:
        if self._hidden is None:
            return scores
        heads, sinks = self._heads_and_sinks(scores)
        hidden = self._hidden(layer, heads).expand(heads, self._tokens, self._tokens)
        return scores.masked_fill(nn.functional.pad(hidden, (0, sinks)), -torch.inf)

    def _attends(self, scores: Tensor) -> bool:
        """Whether these are scores of all tokens for all tokens, [1, H, T, K] or [H, T, K]."""
        if scores.dim() not in (3, 4):
            return False
        keys = scores.shape[-1]
        return scores.shape[-2] == self._tokens and keys in (self._tokens, self._tokens + 1)

    def _heads_and_sinks(self, scores: Tensor) -> tuple[int, int]:
        return scores.shape[-3], scores.shape[-1] - self._tokens

    def _of_keys(self, whole: Tensor) -> Tensor:
        return whole.reshape(whole.shape[-3:])[:, :, : self._tokens]


def plain_logits(
    model: PreTrainedModel,
    token_ids: list[int],
    hidden: Hidden | None = None,
    factors: Factors | None = None,
) -> tuple[Tensor, PlainSoftmax]:
    """Logits after the last token, [vocabulary], and the softmax of every layer.

    ``model`` has eager attention. The embeddings begin a graph of their own, so that what depends
    on them has gradients.
    """

    def begin(_: nn.Module, __: Any, output: Tensor) -> Tensor:
        return output.detach().requires_grad_(torch.is_grad_enabled()).clone()

    softmax = PlainSoftmax(len(token_ids), hidden, factors)
    with model.get_input_embeddings().register_forward_hook(begin), softmax:
        logits: Tensor = model(input_ids=torch.tensor([token_ids]), use_cache=False).logits
    return logits[0, -1].float(), softmax
