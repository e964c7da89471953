"""Predictions when label words cannot attend to the text before them ([A] §2.2, Fig. 4).

All tokens of the label words are isolated or, as controls, their neighbors or random tokens. A
label word of several tokens is isolated token by token, so that none attends to another either.

In some layers, the isolated positions are cut off from all earlier tokens, in one of two variants.
``mask`` hides earlier tokens before the softmax, so a position attends only to itself, with weight
1 (the authors' code). ``zero`` sets the attention to earlier tokens to 0 after the softmax, so only
the position's original weight on itself remains (the paper's text). All isolated tokens are in the
demonstrations, so each setting runs the shared prefix once, and the queries only in later layers.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.isolation import ISOLATION
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Attention, AttentionCall, attention_rows
from anchorflow.model.batches import Batch
from anchorflow.model.cell import Cell
from anchorflow.model.interventions import IntervenedRun, Interventions, measure_interventions
from anchorflow.model.last_tokens import FIRST_TOKEN
from anchorflow.model.layer_kinds import attention_layers
from anchorflow.model.layers import keep_outputs
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.positions import (
    label_word_tokens,
    matched_positions,
    non_label_positions,
    positions_without_demonstrations,
)
from anchorflow.random_draws import generator

log = logging.getLogger(__name__)


class Setting(NamedTuple):
    """What is isolated, and where; the unmodified run has ``positions`` "none" and no layers."""

    variant: str
    positions: str
    draw: int
    side: str
    layers: int

    def isolated_layers(self, depth: int) -> range:
        """The isolated layers in a model with ``depth`` layers."""
        return range(self.layers) if self.side == "first" else range(depth - self.layers, depth)


DRAWN = ("random", "text")  # positions that are drawn at random
UNTOUCHED = Setting("none", "none", 0, "none", 0)
# Queries see the prompt's first token and the instruction alone: no isolation, and as much as there
# is to lose.
HIDDEN = Setting("none", "hidden", 0, "none", 0)
_WHERE = {
    "before": "between the prompt's first token and its label word",
    "after": "between its label word and the next one, or the target",
    "text": "of its text alone",
}


class Isolate:
    """The intervention that cuts some positions off from earlier tokens in some layers.

    ``positions``, [S], are the isolated rows, the same for every example.

    Source: Wang et al. 2023, §2.2 (``zero``) and the authors' code (``mask``).
    """

    def __init__(self, positions: Tensor, layers: Collection[int], variant: str) -> None:
        self._positions, self._layers, self._variant = positions, layers, variant

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output, [B, H, T, D], replaced in the isolated rows of isolated layers."""
        if call.prefix is not None:
            raise ValueError("isolation is for the demonstrations, not for what follows them")
        output = attention(call)
        if call.layer not in self._layers:
            return output
        rows = self._positions.to(output.device)
        # A row that attends only to itself, with weight 1, outputs its own value.
        values = call.value[:, :, rows].repeat_interleave(output.shape[1] // call.value.shape[1], 1)
        if self._variant == "zero" or call.sinks is not None:
            others = rows[None, :, None] != torch.arange(call.keys, device=rows.device)
            cut = None if self._variant == "zero" else others  # a sink keeps its share
            weights = attention_rows(call, rows.expand(len(values), -1), cut)  # [B, H, S, T]
            values = values * weights.gather(3, rows[:, None].expand(*values.shape[:3], 1))
        return output.index_copy(2, rows, values.to(output.dtype))


def settings_of(
    variants: Sequence[str],
    layers: Sequence[int] | None,
    draws: int,
    depth: int,
    model: str,
    positions: Sequence[str] = ("label", "random"),
) -> list[Setting]:
    """All requested settings of isolation.

    By default, the first or last 1, 3, 5, and 7 layers are isolated, as far as the model has them.
    """
    if layers is None:
        layers = [count for count in (1, 3, 5, 7) if count <= depth]
    if max(layers) > depth:
        raise InputError(
            f"isolation.layers: {max(layers)} is more than the {depth} layers of model {model}; "
            "lower it."
        )
    chosen = [
        (which, draw) for which in positions for draw in range(draws if which in DRAWN else 1)
    ]
    return [
        Setting(variant, which, draw, side, count)
        for variant in variants
        for which, draw in chosen
        for side in ("first", "last")
        for count in layers
    ]


def isolated_positions(
    setting: Setting, prompt: Mapping[str, Any], shared: int
) -> list[int] | None:
    """The isolated positions: all tokens of the label words, or the control's in their place.

    ``random``: equally many other tokens of the demonstrations. ``text``: tokens of each
    demonstration's text; ``before`` and ``after``: the neighbors of label words; see
    :func:`matched_positions`. No random number depends on the label words. Isolated positions must
    be among the ``shared`` tokens, with which all prompts begin. The result is None if a
    demonstration lacks such tokens, or if they are not all shared.
    """
    labels = list(chain.from_iterable(label_word_tokens(prompt)))
    if setting.positions == "label":
        return labels
    task, which = task_of(prompt["task"]), setting.positions
    if which != "random":
        random = generator(prompt["seed"], task, "isolation", which, setting.draw)
        matched = matched_positions(prompt, which, random)
        return matched if matched is not None and max(matched) < shared else None
    random = generator(prompt["seed"], task, "isolation", setting.draw)
    others = [token for token in non_label_positions(prompt) if token < shared]
    if len(others) < len(labels):
        raise InputError(
            f"isolation.positions: the demonstrations of task {task} have {len(others)} tokens "
            f"besides the {len(labels)} of their label words for model {prompt['model']}, too few "
            "to draw the same number; use longer texts or shorter label words."
        )
    drawn = random.choice(others, len(labels), replace=False)
    return sorted(drawn.tolist())


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Demonstrations and queries once, and in every setting from the first isolated layer on.

    The queries run once more without the demonstrations.
    """
    which = spec["variants"], spec.get("layers"), spec["draws"], depth, spec.get("model", "")
    settings = settings_of(*which, spec["positions"])
    shares = [1 - setting.isolated_layers(depth).start / depth for setting in settings]
    copies = 1 + sum(shares)
    asked = 1 + copies - len(shares) / depth  # queries begin one layer later
    return Cost(copies * prompts.demonstrations + asked * prompts.asked, copies=copies)


def measure_isolation(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    top_tokens: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions under every setting of :func:`settings_of`; see :func:`measure_interventions`.

    The unmodified run, and one without the demonstrations, are added.
    """
    return measure_interventions(
        model,
        prompts,
        lambda chosen: _Runs(model, chosen, settings),
        ISOLATION,
        batch_tokens,
        examples,
        scoring=scoring,
        top_tokens=top_tokens,
        at_once=len(settings) + 1,
    )


class _Runs(Interventions[Setting]):
    """One shared prefix per setting; what isolation leaves unchanged is computed only once.

    Isolating rows in layer l changes the output of layer l, hence the prefix's keys and values, and
    the queries, from layer l + 1 on.
    """

    unmodified = (UNTOUCHED,)

    def __init__(
        self, model: PreTrainedModel, prompts: pl.DataFrame, settings: Sequence[Setting]
    ) -> None:
        self._model, self._prompt = model, prompts.row(0, named=True)
        self._token_ids = shared_token_ids(prompts)
        self._depth = len(attention_layers(model.config))
        possible = self._possible(settings)
        self.settings = [*possible, HIDDEN]
        starts = [setting.isolated_layers(self._depth).start for setting in possible]
        with keep_outputs(model, {start - 1 for start in starts if start > 0}) as kept:
            self.untouched = compute_prefix(model, self._token_ids)
        self._kept = kept

    def _possible(self, settings: Sequence[Setting]) -> list[Setting]:
        """The settings whose positions every demonstration has; a warning names the others."""
        lacking = {
            setting.positions
            for setting in settings
            if isolated_positions(setting, self._prompt, len(self._token_ids)) is None
        }
        for positions in sorted(lacking):
            log.warning(
                "Not isolated: %s. A demonstration of task %s has no token %s that all prompts "
                "share (isolation.positions).",
                positions,
                self._prompt["task"],
                _WHERE[positions],
            )
        return [setting for setting in settings if setting.positions not in lacking]

    def intervened(self, setting: Setting) -> Callable[[Batch], IntervenedRun]:
        """The prefix with isolated positions, or without the demonstrations."""
        if setting == HIDDEN:
            seen = torch.tensor(positions_without_demonstrations(self._prompt))[None]
            hidden = self.untouched.keep(dict.fromkeys(self.untouched.layers, seen))
            return lambda _: IntervenedRun(hidden, 0)
        positions = isolated_positions(setting, self._prompt, len(self._token_ids))
        assert positions is not None
        if max(positions) >= len(self._token_ids):
            raise InputError(
                f"tasks.{task_of(self._prompt['task'])}.template: its queries begin differently "
                "from one another, so that demonstrations cannot be isolated; begin it with a word."
            )
        layers = setting.isolated_layers(self._depth)
        prefix = compute_prefix(
            self._model,
            self._token_ids,
            Isolate(torch.tensor(positions), layers, setting.variant),
            resumed=self._kept.get(layers.start - 1),
            below=self.untouched,
        )
        # Queries read changed keys and values in the layer after the first isolated one.
        return lambda _: IntervenedRun(prefix, layers.start + 1)


def measure(cell: Cell) -> None:
    spec, card = cell.spec, cell.card
    which = spec["variants"], spec.get("layers"), spec["draws"], cell.depth, card["name"]
    settings = settings_of(*which, spec["positions"])
    how = {"settings": settings, "top_tokens": spec["top_tokens"]}
    cell.measure(ISOLATION, cost, partial(measure_isolation, **how))
