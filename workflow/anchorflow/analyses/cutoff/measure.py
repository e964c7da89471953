"""Predictions when queries see no demonstrations from some layer on, the cutoff.

Once a model has read the task and the answer from the demonstrations, it no longer needs their keys
and values in later layers (Sia et al. 2024). The prompt's first token, which draws attention for
being first, and any instruction stay visible: without them, models fail whatever they have read.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from transformers import PreTrainedModel

from anchorflow.analyses.cutoff import CUTOFF
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.batches import Batch
from anchorflow.model.cell import Cell
from anchorflow.model.interventions import (
    CUTS_AT_ONCE,
    BatchRun,
    IntervenedRun,
    Interventions,
    measure_interventions,
)
from anchorflow.model.last_tokens import FIRST_TOKEN
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.logits import Answers
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.positions import label_word_tokens, positions_without_demonstrations
from anchorflow.random_draws import generator


class Setting(NamedTuple):
    """What queries still see of the demonstrations (``sees``) from ``layer`` on."""

    sees: str
    draw: int
    layer: int


def settings_of(sees: Sequence[str], draws: int, every: int, depth: int) -> list[Setting]:
    """All requested settings; the last layer of each series, ``depth``, is the unmodified run.

    Cutoffs are ``every`` layers apart, from layer 0 on.
    """
    return [
        Setting(name, draw, layer)
        for name in sees
        for draw in range(draws if name == "random" else 1)
        for layer in [*range(0, depth, every), depth]
    ]


def seen_positions(setting: Setting, prompt: Mapping[str, Any], shared: int) -> list[int]:
    """The tokens that queries still see from the cutoff on, increasing.

    ``first``: the prompt's first token and the instruction; ``label``: these and all tokens of
    label words; ``random``: these and the same number of other tokens, drawn at random.
    """
    always = {*positions_without_demonstrations(prompt)}
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
    """The prefix, of which only the tokens ``seen`` are kept from a layer on."""
    some = torch.tensor(seen)[None]
    above = prefix.keep({at: some for at in prefix.layers if at >= layer})
    return replace(prefix, layers={**prefix.layers, **above.layers})


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """The demonstrations once, and the queries from every cutoff on.

    Variants run in groups; each group starts from an unmodified run of the queries.
    """
    settings = settings_of(spec["sees"], spec["draws"], spec["every"], depth)
    asked = sum(1 - setting.layer / depth for setting in settings) + ceil(
        len(settings) / CUTS_AT_ONCE
    )
    return Cost(prompts.demonstrations + asked * prompts.asked, copies=1 + CUTS_AT_ONCE)


def measure_cutoff(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    top_tokens: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions under every setting of :func:`settings_of`; see :func:`measure_interventions`."""
    return measure_interventions(
        model,
        prompts,
        lambda chosen: _Runs(model, chosen, settings),
        CUTOFF,
        batch_tokens,
        examples,
        scoring,
        top_tokens,
    )


class _Runs(Interventions[Setting]):
    """Runs in which queries see fewer tokens of the demonstrations from some layer on."""

    def __init__(
        self, model: PreTrainedModel, prompts: pl.DataFrame, settings: Sequence[Setting]
    ) -> None:
        depth = len(attention_layers(model.config))
        self._prompt = prompts.row(0, named=True)
        self.untouched = compute_prefix(model, shared_token_ids(prompts))
        self.settings = [setting for setting in settings if setting.layer < depth]
        self.unmodified = [setting for setting in settings if setting.layer == depth]
        self._changed = False

    def intervened(self, setting: Setting) -> Callable[[Batch], IntervenedRun]:
        """The demonstrations, reduced from the cutoff on to what is seen."""
        seen = seen_positions(setting, self._prompt, self.untouched.tokens)
        prefix = without_demonstrations(self.untouched, seen, setting.layer)
        return lambda _: IntervenedRun(prefix, setting.layer)

    def columns(self, batch: Batch, ran: BatchRun[Setting], plain: Answers) -> Mapping[str, Any]:
        """No columns; records whether any score differs from the unmodified run's."""
        self._changed |= not torch.equal(plain.scores, ran.answers.scores)
        return {}

    def check(self) -> None:
        """Raise InputError if no score depends on the demonstrations.

        Otherwise, a cut that does not reach the model's attention would go unnoticed.
        """
        if self.settings and not self._changed:
            raise InputError(
                f"cutoff: leaving the demonstrations of task {task_of(self._prompt['task'])} out "
                f"changes no answer of model {self._prompt['model']}, from any layer on; set "
                '"cutoff: {sees: []}" to leave this analysis out.'
            )


def measure(cell: Cell) -> None:
    spec = cell.spec
    settings = settings_of(spec["sees"], spec["draws"], spec["every"], cell.depth)
    how = {"settings": settings, "top_tokens": spec["top_tokens"]}
    cell.measure(CUTOFF, cost, partial(measure_cutoff, **how))
