"""Models that run out of memory above so many tokens at once."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.model.layers import decoder_layers


def run_out(_: object = None) -> None:
    """Ask for more memory than any computer has, so that torch says in its words that it is out."""
    torch.empty(2**60)


def limit(model: PreTrainedModel, tokens: int) -> list[int]:
    """Let the last layer run out of memory above so many tokens; returns when it did."""
    return _limited(decoder_layers(model)[-1], lambda hidden: hidden.shape[:2].numel(), tokens)


def limit_backward(model: PreTrainedModel, tokens: int) -> list[int]:
    """The same in the backward pass, when all layers above the first one have reported."""
    failed: list[int] = []

    def watch(_: object, __: object, output: Tensor) -> None:
        def check(gradient: Tensor) -> None:
            if gradient.shape[0] * gradient.shape[1] > tokens:
                failed.append(gradient.shape[0] * gradient.shape[1])
                run_out()

        output.register_hook(check)

    decoder_layers(model)[0].register_forward_hook(watch)
    return failed


def limit_head(model: PreTrainedModel, prompts: int) -> list[int]:
    """Let the head run out of memory above so many prompts; returns when it did."""
    return _limited(model.get_output_embeddings(), len, prompts)


def _limited(module: nn.Module, size_of: Callable[[Tensor], int], most: int) -> list[int]:
    failed: list[int] = []

    def check(_: object, inputs: tuple[Tensor, ...], __: object) -> None:
        size = size_of(inputs[0])
        if size > most:
            failed.append(size)
            run_out()

    module.register_forward_hook(check)
    return failed
