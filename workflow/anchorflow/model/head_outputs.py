"""Interventions on the outputs of attention heads, before the output projection."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from anchorflow.model.attention_function import Attention, AttentionCall


class RecordOutputs:
    """The intervention that records heads' outputs at the last token, [B, H, D] by layer."""

    def __init__(self) -> None:
        self.found: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Record the output, which is unchanged."""
        output = attention(call)
        self.found[call.layer] = output[:, :, -1].float()  # means of few bits would be rough
        return output


class RecordSums:
    """The intervention that adds up heads' outputs over all rows of all calls, [H, D] by layer.

    ``real``, [B, T], is true at rows that are no padding; by default, everywhere.
    """

    def __init__(self, real: Tensor | None = None) -> None:
        self._real = real
        self.sums: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """Add the output, which is unchanged."""
        output = attention(call)
        counted = output.float()
        if self._real is not None:
            counted = counted * self._real.to(output.device)[:, None, :, None]
        self.sums[call.layer] = counted.sum((0, 2))
        return output


class ReplaceOutputs:
    """The intervention that replaces outputs of heads, at the last token or at all.

    ``outputs`` of each layer are [B, H, D], or [H, D] for the same at all examples. Only those of
    ``heads`` are replaced.
    """

    def __init__(
        self,
        outputs: Mapping[int, Tensor],
        heads: Mapping[int, Sequence[int]],
        everywhere: bool = False,
    ) -> None:
        self._outputs, self._heads = outputs, heads
        self._rows = slice(None) if everywhere else slice(-1, None)

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The output of the layer with other outputs of some heads, [B, H, T, D]."""
        output = attention(call)
        heads = list(self._heads.get(call.layer, ()))
        if not heads:
            return output
        output = output.clone()
        other = self._outputs[call.layer][..., heads, :].to(output)
        output[:, heads, self._rows] = other.unsqueeze(-2).expand_as(output[:, heads, self._rows])
        return output


def means_over_classes(outputs: Tensor, classes: Tensor) -> Tensor:
    """For every prompt, the mean over classes of the mean outputs of the other prompts of a class.

    Classes count alike. Otherwise a prompt's class would be rarer among the others than among all,
    and heads that write for their prompt's class would write against it. For the same reason, a
    prompt that is the only one of its class is itself the mean of this class. ``outputs`` and the
    means are [B, ...], NaN for a single prompt; ``classes``, [B], are those of the true labels.
    """
    if len(outputs) == 1:
        return torch.full_like(outputs, torch.nan)
    classes = classes.to(outputs.device)
    same = (classes[:, None] == classes).to(outputs)
    number = same.sum(1)
    itself = torch.eye(len(same), device=outputs.device)
    of_class = torch.where(number[:, None] > 1, same * (1 - itself) / (number - 1).clamp(1), itself)
    weights = torch.where(same > 0, of_class, 1 / number)
    return torch.einsum("bo,o...->b...", weights / weights.sum(1, keepdim=True), outputs)
