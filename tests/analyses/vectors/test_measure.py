"""Vectors put into prompts, against full eager prompts whose layers' outputs hooks replace."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.analyses.vectors import ALL, NO_LAYER
from anchorflow.analyses.vectors.local import deranged_words, with_random_texts, with_words
from anchorflow.analyses.vectors.measure import layers_at, measure_vectors, split_in_halves
from anchorflow.model.layers import attending_layers
from anchorflow.random_draws import generator
from plain_heads import NORMED, projection_of
from plain_softmax import plain_logits
from tiny_models import FAMILIES, KINDS, PREFIX, VOCABULARY, shared_prompts, tiny_model

TEXTS = [10, 13, 9, 12, 11, 8]  # tokens of the queries, two of each class
WORDS = (8, 18, 28)
SPEC: dict[str, Any] = {"kinds": ["task", "function", "local"], "depths": 2, "heads": 99}
Answers = dict[tuple[str, str, int], Tensor]  # probabilities [B, C] by vector, source, and layer


@cache
def prompts() -> pl.DataFrame:
    return shared_prompts(TEXTS)


def other_task() -> pl.DataFrame:
    shorter = shared_prompts([7, 11, 6]).with_columns(task=pl.lit("other"))
    ids = [[(token * 7) % 90 + 1 for token in row] for row in shorter["token_ids"].to_list()]
    return shorter.with_columns(pl.Series("token_ids", ids), label=pl.Series([0, 0, 1]))


def halves() -> np.ndarray:
    return split_in_halves([0, 1, 2, 0, 1, 2], generator(0, "news", "vectors", "halves"))


def found(model: PreTrainedModel, spec: dict[str, Any], **given: Any) -> tuple[pl.DataFrame, Any]:
    return measure_vectors(model, prompts(), spec, range(VOCABULARY), 60, **given)


def probabilities(rows: pl.DataFrame, *setting: Any) -> Tensor:
    names = ("vector", "source", "layer")
    some = rows.filter(**dict(zip(names, setting, strict=True))).sort("example")
    return torch.tensor(some["probabilities"].to_list())


class Eager:
    """Full eager prompts, in which hooks see and replace layers' outputs."""

    def __init__(self, family: str) -> None:
        self.model = tiny_model(family, eager=True)
        self.family, self.layers = family, attending_layers(self.model)

    def run(
        self,
        ids: list[int],
        hide: bool = False,
        change: tuple[int, Callable[[Tensor], Tensor]] | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Probabilities of label words, and layers' outputs with tokens first, [T, ..., hidden]."""
        kept: dict[int, Tensor] = {}

        def forward(layer: int, _: nn.Module, __: Any, output: Any) -> Any:
            hidden = output[0] if isinstance(output, tuple) else output
            streams = hidden.dim() == 4 and hidden.shape[1] == 1  # before examples
            by_token = hidden[:, 0].transpose(0, 1) if streams else hidden[0]
            if change is not None and change[0] == layer:
                by_token = change[1](by_token.clone())
                whole = by_token.transpose(0, 1)[:, None] if streams else by_token[None]
                output = (whole, *output[1:]) if isinstance(output, tuple) else whole
            kept[layer] = by_token
            return output

        hooks = [
            module.register_forward_hook(lambda *a, layer=layer: forward(layer, *a))
            for layer, module in enumerate(self.layers)
        ]
        hidden = torch.zeros(len(ids), len(ids), dtype=torch.bool)
        hidden[PREFIX:, 1:PREFIX] = hide
        with torch.no_grad():
            logits, _ = plain_logits(self.model, ids, lambda *_: hidden)
        for hook in hooks:
            hook.remove()
        return logits[[5, 11, 23]].softmax(-1), [kept[layer] for layer in range(len(self.layers))]

    @contextmanager
    def written(self) -> Iterator[list[Tensor]]:
        """What attention adds to the residual stream at the last token, without a bias, by layer.

        A norm after it scales, by the same factors, what is written with the bias and without it.
        """
        parts: list[Tensor] = []

        def keep(plain: Any, _: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
            parts.append((output - plain(torch.zeros_like(args[0])))[0, -1])

        def scale(_: nn.Module, args: tuple[Tensor], output: Tensor) -> None:
            parts[-1] = parts[-1] * (output / args[0])[0, -1]

        hooks = []
        for layer in self.layers:
            projection = projection_of(layer)
            hooks.append(projection.register_forward_hook(partial(keep, projection.forward)))
            if self.family in NORMED:
                norm: nn.Module = layer.post_attention_layernorm  # type: ignore[assignment]
                hooks.append(norm.register_forward_hook(scale))
        yield parts
        for hook in hooks:
            hook.remove()


def plain_mean(states: list[Tensor], classes: list[int], allowed: list[int]) -> Tensor:
    """The mean over classes of the means of the allowed texts of a class."""
    by_class: dict[int, list[Tensor]] = {}
    for text in allowed:
        by_class.setdefault(classes[text], []).append(states[text])
    return torch.stack([torch.stack(of).mean(0) for of in by_class.values()]).mean(0)


def of_sources() -> dict[str, tuple[list[list[int]], list[int]]]:
    """Token ids and classes of the prompts from which vectors are."""
    table = prompts()
    ids, classes = table["token_ids"].to_list(), table["label"].to_list()
    words = deranged_words(table.row(0, named=True), generator(0, "news", "vectors", "deranged"))
    assert words
    deranged = [with_words(table.row(0, named=True), row, words) for row in ids]
    other = other_task()
    return {
        "own": (ids, classes),
        "deranged": (deranged, classes),
        "without": (ids, classes),
        "other_task": (other["token_ids"].to_list(), other["label"].to_list()),
    }


def compare(family: str, kinds: tuple[str, ...]) -> None:
    rows, _ = found(tiny_model(family), {**SPEC, "kinds": kinds}, other=other_task())
    eager, half = Eager(family), halves()
    layers = layers_at(2, len(eager.layers))
    own, classes = of_sources()["own"]
    for number, hide in ((0, True), (ALL, False)):
        plain = torch.stack([eager.run(ids, hide)[0] for ids in own])
        close(probabilities(rows.filter(number=number), "none", "none", NO_LAYER), plain)
    of_target = [kind for kind in kinds if kind != "local"]
    for source, (ids, of_source) in of_sources().items() if of_target else ():
        states, written = [], []
        for row in ids:
            with eager.written() if "function" in kinds else nullcontext([torch.zeros(1)]) as parts:
                _, outputs = eager.run(row, source == "without")
            written.append(torch.stack([*parts]).sum(0))
            states.append([of[-1] for of in outputs])
        for vector in of_target:
            for layer in layers:
                of_layer = [of[layer] for of in states] if vector == "task" else written
                expected = []
                for text, row in enumerate(own):
                    others = [k for k in range(len(own)) if half[k] != half[text]]
                    allowed = [*range(len(ids))] if source == "other_task" else others
                    mean = plain_mean(of_layer, of_source, allowed)
                    put = put_at_target(mean, add=vector == "function")
                    expected.append(eager.run(row, True, (layer, put))[0])
                close(probabilities(rows, vector, source, layer), torch.stack(expected))
    if "local" in kinds:
        compare_local(eager, rows, layers)


def put_at_target(vector: Tensor, add: bool) -> Callable[[Tensor], Tensor]:
    def put(hidden: Tensor) -> Tensor:
        hidden[-1] = hidden[-1] + vector if add else vector
        return hidden

    return put


def compare_local(eager: Eager, rows: pl.DataFrame, layers: list[int]) -> None:
    table = prompts()
    prompt = table.row(0, named=True)
    draw = generator(0, "news", "vectors", "random texts", 0)
    shared = with_random_texts(prompt, prompt["token_ids"][:PREFIX], range(VOCABULARY), draw)
    recipients = [shared + row[PREFIX:] for row in table["token_ids"].to_list()]
    untouched = torch.stack([eager.run(ids)[0] for ids in recipients])
    close(probabilities(rows, "local", "none", NO_LAYER), untouched)
    for source in ("own", "deranged"):
        _, outputs = eager.run(of_sources()[source][0][0])
        for layer in layers:

            def put(hidden: Tensor, taken: Tensor = outputs[layer]) -> Tensor:
                hidden[list(WORDS)] = taken[list(WORDS)]
                return hidden

            expected = torch.stack([eager.run(ids, False, (layer, put))[0] for ids in recipients])
            close(probabilities(rows, "local", source, layer), expected)


def close(ours: Tensor, plain: Tensor) -> None:
    torch.testing.assert_close(ours, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_every_vector_equals_the_same_change_in_full_eager_prompts(family: str) -> None:
    compare(family, ("task", "function", "local"))


_OTHERS = [family for family in FAMILIES if family not in ("llama", "gemma3")]


@pytest.mark.long
@pytest.mark.parametrize("family", _OTHERS)
def test_every_vector_equals_the_same_change_in_other_families(family: str) -> None:
    kinds = ("task", "local") if family == "gpt-neo" else ("task", "function", "local")
    compare(family, kinds)


@pytest.mark.long
@pytest.mark.parametrize("family", KINDS)
def test_every_kind_of_attention_gives_the_plain_numbers_or_is_refused(family: str) -> None:
    compare(family, ("task", "local"))
