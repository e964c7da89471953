"""What memory and time of a job depend on: the model's size, its prompts, and how often they run.

The function ``cost`` in an analysis's ``measure.py`` counts the tokens that it runs. For the time,
every token is multiplied with the weights of all layers. Not counted are the output head, which is
large in models with a large vocabulary and few layers, and products of queries and keys, a tenth
of the operations for prompts of some hundred tokens.
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

SHARE = 0.7  # of a large matrix product's rate, which a model reaches
PER_LAYER = 5e-4  # seconds per step for a layer's many small operations
PER_JOB = 0.7  # seconds for libraries, tokenizer, and opening the weights


class Size(NamedTuple):
    """Numbers of parameters and of activations."""

    layers: int
    hidden: int
    keys_values: int  # numbers in a token's keys and values in one layer
    layer: int  # weights that a token is multiplied with, in the largest layer
    multiplied: int  # the same in all layers together
    parameters: int
    looked_up: int  # parameters of embedding tables, of which only the tokens' rows are read
    head: int  # parameters of the output embeddings, which may be tied to such a table
    itemsize: int  # bytes of a parameter

    @classmethod
    def of(cls, config: PretrainedConfig, dtype: torch.dtype) -> "Size":
        """Count the numbers of an architecture, in a model without storage (device "meta")."""
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        text = config.get_text_config()
        configs = text.per_layer_config if getattr(text, "is_heterogeneous", False) else [text]
        chosen = getattr(text, "num_experts_per_tok", None)
        decoder = model.get_decoder().modules()
        layers = [module for module in decoder if isinstance(module, GradientCheckpointingLayer)]
        weights = [_multiplied(layer.named_parameters(), chosen) for layer in layers]
        tables = {id(m.weight): m.weight for m in model.modules() if isinstance(m, nn.Embedding)}
        head = model.get_output_embeddings().weight
        return cls(
            layers=text.num_hidden_layers,
            hidden=text.hidden_size,
            keys_values=max(map(_keys_values, configs), default=0),
            layer=max(weights, default=0),
            multiplied=sum(weights),
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            looked_up=sum(table.numel() for key, table in tables.items() if key != id(head)),
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
    """Weights that a token is multiplied with; of experts (first axis), the number ``chosen``."""
    return sum(
        (weight[:chosen] if "expert" in name and weight.dim() == 3 else weight).numel()
        for name, weight in named
    )


class Prompts(NamedTuple):
    """A job's prompts, by their number and their mean lengths."""

    texts: float  # test texts
    demonstrations: float  # tokens of the demonstrations
    query: float  # tokens after them
    labels: int
    further: float = 0  # tokens of whole label words, after each text

    @classmethod
    def of(
        cls, prompts: pl.DataFrame, scoring: Mapping[str, Any] = MappingProxyType({})
    ) -> "Prompts":
        """From ``PROMPTS``, those with fixed demonstrations if there are any, scored this way."""
        run = prompts.filter(pl.col("skipped").is_null())
        fixed = run.filter(demonstrations="fixed")
        run = run if fixed.is_empty() else fixed
        if run.is_empty():
            return cls(0, 0, 0, 1)
        demonstrations, tokens = run.select(pl.col("query_start", "tokens").mean()).row(0)
        begun: set[tuple[int, ...]] = set()  # words that differ in their last token run once
        if scoring.get("scoring") == "whole_word":
            begun = {tuple(word[:-1]) for word in run["word_tokens"][0].to_list()}
        further, labels = sum(map(len, begun)), len(run["label_tokens"][0])
        return cls(
            run["example"].n_unique(), demonstrations, tokens - demonstrations, labels, further
        )

    @property
    def asked(self) -> float:
        """Tokens after the demonstrations."""
        return self.texts * (self.query + self.further)

    @property
    def once(self) -> float:
        """Tokens of all prompts if the demonstrations run once for all of them."""
        return self.demonstrations + self.asked

    @property
    def whole(self) -> float:
        """Tokens of all prompts if each runs with its own demonstrations."""
        return self.texts * (self.demonstrations + self.query)


class Cost(NamedTuple):
    """Tokens that run through all layers; those through some of them count as their share."""

    forward: float
    backward: float = 0
    steps: float = 0  # passes of few tokens, which take as long as reading the weights
    copies: float = 1  # of the shared demonstrations' keys and values that are kept at once
    whole: bool = False  # batches are of whole prompts


CostOf = Callable[[Prompts, Mapping[str, Any], int], Cost]  # of prompts, a stage's spec, and depth


def once(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every text once, after shared demonstrations."""
    return Cost(prompts.once)


def seconds(cost: Cost, size: Size, rates: Rates) -> float:
    operations = 2 * size.multiplied * (cost.forward + cost.backward)
    step = size.multiplied * size.itemsize / rates.bytes + size.layers * PER_LAYER
    return PER_JOB + operations / (SHARE * rates.operations) + cost.steps * step


def log_job(cost: Cost, size: Size, dtype: torch.dtype, device: torch.device) -> None:
    """Log the estimated time of a job, unless it is only a few seconds."""
    if size.multiplied * (cost.forward + cost.backward) > 1e12:  # some seconds on most machines
        log.info(
            "Time: about %.0f s.", seconds(cost, size, Rates.measured(size.hidden, dtype, device))
        )
