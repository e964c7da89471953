"""Predictions when queries see no demonstrations from some layer on.

If a model has read off the task and the answer below some layer, it needs the demonstrations' keys
and values no longer above it (Sia et al. 2024). The prompt's first token, which draws attention for
being first, and an instruction stay visible: without them, models break whatever they have read.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from transformers import PreTrainedModel

from anchorflow.config.cells import task_of
from anchorflow.config.errors import InputError
from anchorflow.measure.interventions import (
    Interventions,
    Ran,
    measure_interventions,
)
from anchorflow.measure.token_kinds import label_word_tokens
from anchorflow.model.batches import Batch
from anchorflow.model.language_model import Answers
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.variants import CUTS_AT_ONCE, Variant
from anchorflow.model.word_scores import FIRST_TOKEN
from anchorflow.prepare.prompts import instruction_positions
from anchorflow.random_draws import generator
from anchorflow.schemas.cutoff import CUTOFF


class Setting(NamedTuple):
    """What queries still see of the demonstrations from ``layer`` on."""

    sees: str
    draw: int
    layer: int


def settings_of(sees: Sequence[str], draws: int, every: int, depth: int) -> list[Setting]:
    """All requested settings; each ends with ``layer`` of ``depth``, the unmodified run.

    Parameters
    ----------
    every : int
        Step between the layers, from 0 on.
    depth : int
        The model's number of layers.
    """
    return [
        Setting(name, draw, layer)
        for name in sees
        for draw in range(draws if name == "random" else 1)
        for layer in [*range(0, depth, every), depth]
    ]


def seen_positions(setting: Setting, prompt: Mapping[str, Any], shared: int) -> list[int]:
    """The tokens of the demonstrations that queries still see, increasing.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.
    shared : int
        Number of tokens that all prompts of the cell share.
    """
    always = {0, *instruction_positions(prompt)}
    labels = {*chain.from_iterable(label_word_tokens(prompt))}
    if setting.sees == "first":
        return sorted(always)
    if setting.sees == "label":
        return sorted(t for t in always | labels if t < shared)
    random = generator(prompt["seed"], task_of(prompt["task"]), "cutoff", setting.draw)
    others = [token for token in range(shared) if token not in always | labels]
    drawn = random.choice(others, min(len(labels), len(others)), replace=False)
    return sorted(always | {*drawn.tolist()})


def without_demonstrations(prefix: Prefix, seen: Sequence[int], layer: int) -> Prefix:
    """The prefix of which, from a layer on, some tokens alone are kept."""
    some = torch.tensor(seen)[None]
    above = prefix.keep({at: some for at in prefix.layers if at >= layer})
    return replace(prefix, layers={**prefix.layers, **above.layers})


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Queries from every layer on from which demonstrations are left out."""
    settings = settings_of(spec["sees"], spec["draws"], spec["every"], depth)
    asked = sum(1 - each.layer / depth for each in settings) + ceil(len(settings) / CUTS_AT_ONCE)
    return Cost(prompts.shown + asked * prompts.asked, copies=1 + CUTS_AT_ONCE)


def measure_cutoff(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    top_tokens: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    first: int | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions under every setting; for other parameters see :func:`measure_interventions`.

    Parameters
    ----------
    settings : sequence of Setting
        From :func:`settings_of`.

    Returns
    -------
    DataFrame
        Columns of ``CUTOFF``.

    Raises
    ------
    InputError
        If keys are missing, logits are not finite, ``top_tokens`` exceeds the vocabulary, or
        leaving out all demonstrations changes no answer by a bit.
    """
    return measure_interventions(
        model,
        prompts,
        lambda chosen: _Runs(model, chosen, settings),
        CUTOFF,
        batch_tokens,
        examples,
        first,
        scoring,
        top_tokens,
    )


class _Runs(Interventions[Setting]):
    """The demonstrations, of which fewer tokens are seen from some layer on."""

    def __init__(
        self, model: PreTrainedModel, prompts: pl.DataFrame, settings: Sequence[Setting]
    ) -> None:
        depth = model.config.get_text_config().num_hidden_layers
        self._prompt = prompts.row(0, named=True)
        self.untouched = compute_prefix(model, shared_token_ids(prompts))
        self.settings = [setting for setting in settings if setting.layer < depth]
        self.unmodified = [setting for setting in settings if setting.layer == depth]
        self._changed = False

    def variant(self, setting: Setting) -> Callable[[Batch], Variant]:
        """The demonstrations without what is not seen."""
        seen = seen_positions(setting, self._prompt, self.untouched.tokens)
        prefix = without_demonstrations(self.untouched, seen, setting.layer)
        return lambda _: Variant(prefix, setting.layer)

    def columns(self, batch: Batch, ran: Ran[Setting], plain: Answers) -> Mapping[str, Any]:
        """None; notes whether an answer differs from the plain one."""
        self._changed |= not torch.equal(plain.scores, ran.answers.scores)
        return {}

    def check(self) -> None:
        """Raise InputError if no answer depends on the demonstrations."""
        if self.settings and not self._changed:
            raise InputError(
                f"cutoff: leaving the demonstrations of task {task_of(self._prompt['task'])} out "
                f"changes no answer of model {self._prompt['model']}, in whatever layer; the model "
                "cannot be measured so."
            )
