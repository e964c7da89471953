"""What memory and time of a job depend on: the model's size, its prompts, and how often they run.

Every analysis says in ``cost`` of its module in ``measure/`` how many tokens it runs. For its time,
every token is multiplied with the weights of all layers. Left out are the head, of which
models with large vocabularies and few layers have much, and products of
queries and keys: a tenth, for prompts of some hundred tokens.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig
from transformers.modeling_layers import GradientCheckpointingLayer

from anchorflow.model.devices import Rates

log = logging.getLogger(__name__)

SHARE = 0.7  # of the rate of a large matrix product that a model reaches
PER_LAYER = 5e-4  # seconds of a layer's many small operations in a step
PER_JOB = 0.7  # seconds for libraries, tokenizer, and opening the weights


class Size(NamedTuple):
    """Numbers of parameters and of activations."""

    layers: int
    hidden: int
    keys_values: int  # that a layer keeps of a token
    layer: int  # weights that a token is multiplied with, in the layer that has most
    multiplied: int  # the same in all layers together
    parameters: int
    looked_up: int  # of these, in tables of which a token's row is read
    head: int  # parameters of the output embeddings, which may be such a table too
    itemsize: int  # bytes of a parameter

    @classmethod
    def of(cls, config: PretrainedConfig, dtype: torch.dtype) -> "Size":
        """Of a model of this architecture, which is made without any numbers to count them."""
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        text = config.get_text_config()
        each = text.per_layer_config if getattr(text, "is_heterogeneous", False) else [text]
        chosen = getattr(text, "num_experts_per_tok", None)
        decoder = model.get_decoder().modules()
        layers = [each for each in decoder if isinstance(each, GradientCheckpointingLayer)]
        weights = [_multiplied(layer.named_parameters(), chosen) for layer in layers]
        tables = {id(m.weight): m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
        head = model.get_output_embeddings().weight
        return cls(
            layers=text.num_hidden_layers,
            hidden=text.hidden_size,
            keys_values=max(map(_keys_values, each), default=0),
            layer=max(weights, default=0),
            multiplied=sum(weights),
            parameters=sum(each.numel() for each in model.parameters()),
            looked_up=sum(each.numel() for key, each in tables.items() if key != id(head)),
            head=head.numel(),
            itemsize=dtype.itemsize,
        )


def _keys_values(layer: PretrainedConfig) -> int:
    """Numbers of a token's key and value in all heads of a layer."""
    heads: int = layer.num_attention_heads
    groups: int = getattr(layer, "num_key_value_heads", None) or heads
    size: int = getattr(layer, "head_dim", None) or layer.hidden_size // heads
    return 2 * groups * size


def _multiplied(named: Iterable[tuple[str, nn.Parameter]], chosen: int | None) -> int:
    """Weights that a token meets: of experts, which come first in shapes, those ``chosen``."""
    return sum(
        (each[:chosen] if "expert" in name and each.dim() == 3 else each).numel()
        for name, each in named
    )


class Prompts(NamedTuple):
    """What a job runs, by its average."""

    texts: float  # test texts
    shown: float  # tokens of the demonstrations
    own: float  # tokens after them
    labels: int
    further: float = 0  # tokens of whole label words, after each text

    @classmethod
    def of(
        cls, prompts: pl.DataFrame, scoring: Mapping[str, Any] = MappingProxyType({})
    ) -> "Prompts":
        """Of ``PROMPTS``, those with fixed demonstrations if there are any, scored like this."""
        run = prompts.filter(pl.col("skipped").is_null())
        fixed = run.filter(demonstrations="fixed")
        run = run if fixed.is_empty() else fixed
        if run.is_empty():
            return cls(0, 0, 0, 1)
        shown, tokens = run.select(pl.col("query_start", "tokens").mean()).row(0)
        begun: set[tuple[int, ...]] = set()  # words that differ in their last token run once
        if scoring.get("scoring") == "whole_word":
            begun = {tuple(word[:-1]) for word in run["word_tokens"][0].to_list()}
        further, labels = sum(map(len, begun)), len(run["label_tokens"][0])
        return cls(run["example"].n_unique(), shown, tokens - shown, labels, further)

    @property
    def asked(self) -> float:
        """Tokens after the demonstrations."""
        return self.texts * (self.own + self.further)

    @property
    def once(self) -> float:
        """Tokens of all texts after demonstrations that they share."""
        return self.shown + self.asked

    @property
    def whole(self) -> float:
        """Tokens of all prompts, each with demonstrations of its own."""
        return self.texts * (self.shown + self.own)


class Cost(NamedTuple):
    """Tokens that run through all layers; those through some of them count as their share."""

    forward: float
    backward: float = 0
    steps: float = 0  # passes of so few tokens that reading the weights takes as long
    copies: float = 1  # of the shared demonstrations' keys and values that are kept at once
    whole: bool = False  # batches are of whole prompts


CostOf = Callable[[Prompts, Mapping[str, Any], int], Cost]  # of prompts, a stage's spec, and depth


def once(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every text once, after shared demonstrations."""
    return Cost(prompts.once)


def seconds(cost: Cost, size: Size, rates: Rates) -> float:
    """How long a job takes."""
    operations = 2 * size.multiplied * (cost.forward + cost.backward)
    step = size.multiplied * size.itemsize / rates.bytes + size.layers * PER_LAYER
    return PER_JOB + operations / (SHARE * rates.operations) + cost.steps * step


def log_job(cost: Cost, size: Size, dtype: torch.dtype, device: torch.device) -> None:
    """Log how long a job will take, unless that is less than some seconds."""
    if size.multiplied * (cost.forward + cost.backward) > 1e12:
        log.info(
            "Time: about %.0f s.", seconds(cost, size, Rates.measured(size.hidden, dtype, device))
        )
