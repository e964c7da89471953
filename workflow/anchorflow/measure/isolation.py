"""Predictions when label words cannot attend to the text before them ([A] §2.2, Fig. 4).

All tokens of the label words are isolated or, for comparison, their neighbors or random tokens.

In some layers, the isolated positions are cut off from all earlier tokens, in one of two variants.
``mask`` hides earlier tokens before the softmax, so a position attends only to itself, with weight
1 (the authors' code). ``zero`` sets their attention to 0 after the softmax, so only the position's
original weight on itself remains (the paper's text). All isolated tokens are in the demonstrations,
so a setting requires one run of the shared prefix and, for the queries, only of the layers above.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.config.cells import task_of
from anchorflow.config.errors import InputError
from anchorflow.measure.interventions import (
    Interventions,
    measure_interventions,
)
from anchorflow.measure.token_kinds import label_word_tokens, matched_positions
from anchorflow.model.attention_function import Attention, AttentionCall, attention_rows
from anchorflow.model.batches import Batch
from anchorflow.model.language_model import keep_outputs
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.variants import Variant
from anchorflow.model.word_scores import FIRST_TOKEN
from anchorflow.prepare.prompts import non_label_positions
from anchorflow.random_draws import generator
from anchorflow.schemas.isolation import ISOLATION

log = logging.getLogger(__name__)


class Setting(NamedTuple):
    """A setting of isolation; the unmodified run has ``positions`` "none" and no layers."""

    variant: str
    positions: str
    draw: int
    side: str
    layers: int

    def isolated_layers(self, depth: int) -> range:
        """The isolated layers of a model with ``depth`` layers."""
        return range(self.layers) if self.side == "first" else range(depth - self.layers, depth)


DRAWN = ("random", "text")
UNTOUCHED = Setting("none", "none", 0, "none", 0)
_WHERE = {
    "before": "between the prompt's first one and its label word",
    "after": "between its label word and the next one, or the target",
    "text": "of its text alone",
}


class Isolate:
    """The intervention that cuts positions off from earlier tokens in some layers.

    Parameters
    ----------
    positions : [S], int
        The isolated rows, the same for every example.
    layers
        The isolated layers, counted from 0.
    variant : str
        ``mask`` or ``zero``.

    Source: Wang et al. 2023, §2.2 (``zero``) and the authors' code (``mask``).
    """

    def __init__(self, positions: Tensor, layers: Collection[int], variant: str) -> None:
        self._positions, self._layers, self._variant = positions, layers, variant

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output, [B, H, T, D], with that of the isolated rows replaced.

        Raises
        ------
        ValueError
            If a prefix is active: positions would have to count from its first token.
        """
        if call.prefix is not None:
            raise ValueError("isolation is for the demonstrations, not for what follows them")
        output = attention(call)
        if call.layer not in self._layers:
            return output
        rows = self._positions.to(output.device)
        own = call.value[:, :, rows].repeat_interleave(output.shape[1] // call.value.shape[1], 1)
        if self._variant == "zero":
            weights = attention_rows(call, rows.expand(len(own), -1))  # [B, H, S, T]
            own = own * weights.gather(3, rows[:, None].expand(*own.shape[:3], 1))
        return output.index_copy(2, rows, own.to(output.dtype))


def settings_of(
    variants: Sequence[str],
    layers: Sequence[int] | None,
    draws: int,
    depth: int,
    model: str,
    positions: Sequence[str] = ("label", "random"),
) -> list[Setting]:
    """All requested settings of isolation.

    Parameters
    ----------
    draws : int
        Draws of the positions that are random: ``random`` and ``text``.
    layers : sequence of int, optional
        Numbers of layers to isolate; by default 1, 3, 5, and 7, as far as the model has them.
    depth, model : int, str
        The model's number of layers and its name.
    positions : sequence of str
        What is isolated; see :func:`isolated_positions`.

    Raises
    ------
    InputError
        If a number of layers exceeds that of the model.
    """
    if layers is None:
        layers = [count for count in (1, 3, 5, 7) if count <= depth]
    if max(layers) > depth:
        raise InputError(
            f"isolation.layers: {max(layers)} is more than the {depth} layers of model {model}; "
            "lower it."
        )
    chosen = [(each, draw) for each in positions for draw in range(draws if each in DRAWN else 1)]
    return [
        Setting(variant, each, draw, side, count)
        for variant in variants
        for each, draw in chosen
        for side in ("first", "last")
        for count in layers
    ]


def isolated_positions(
    setting: Setting, prompt: Mapping[str, Any], shared: int
) -> list[int] | None:
    """All tokens of the label words, or what is isolated in their place.

    ``random`` are equally many other tokens of the demonstrations, ``text`` tokens of each
    demonstration's own text, and ``before`` and ``after`` the neighbors of label words, see
    :func:`matched_positions`. Random tokens are drawn from the first ``shared`` tokens, which all
    prompts have in common. No draw depends on the label words' meaning. None if a demonstration has
    no such tokens beside its label word, or if they are not all among the first ``shared``.

    Raises
    ------
    InputError
        If there are too few tokens to draw random ones from.
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
            f"beside the {len(labels)} of their label words for model {prompt['model']}, too few "
            "to draw as many; use longer texts or shorter label words."
        )
    drawn = random.choice(others, len(labels), replace=False)
    return sorted(drawn.tolist())


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Demonstrations and queries of every setting, from the first isolated layer on."""
    how = (
        spec["variants"],
        spec.get("layers"),
        spec["draws"],
        depth,
        spec.get("model", ""),
        spec["positions"],
    )
    shares = [1 - each.isolated_layers(depth).start / depth for each in settings_of(*how)]
    copies = 1 + sum(shares)
    asked = copies - len(shares) / depth  # queries begin one layer later
    return Cost(copies * prompts.shown + asked * prompts.asked, copies=copies)


def measure_isolation(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    top_tokens: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions under every setting; for other parameters see :func:`measure_interventions`.

    Parameters
    ----------
    settings : sequence of Setting
        From :func:`settings_of`; the unmodified run is always added.

    Returns
    -------
    DataFrame
        Columns of ``ISOLATION``.

    Raises
    ------
    InputError
        If keys are missing, logits are not finite, or ``top_tokens`` exceeds the vocabulary.
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
        at_once=max(1, len(settings)),
    )


class _Runs(Interventions[Setting]):
    """One shared prefix per setting; what isolation does not affect is computed only once.

    Isolating rows in layer l changes the prefix from the output of layer l on, hence its keys from
    layer l + 1 on, and hence the queries' outputs from layer l + 1 on.
    """

    unmodified = (UNTOUCHED,)

    def __init__(
        self, model: PreTrainedModel, prompts: pl.DataFrame, settings: Sequence[Setting]
    ) -> None:
        self._model, self._prompt = model, prompts.row(0, named=True)
        self._token_ids = shared_token_ids(prompts)
        self._depth: int = model.config.get_text_config().num_hidden_layers
        self.settings = self._possible(settings)
        starts = [setting.isolated_layers(self._depth).start for setting in self.settings]
        with keep_outputs(model, {start - 1 for start in starts if start > 0}) as kept:
            self.untouched = compute_prefix(model, self._token_ids)
        self._kept = kept

    def _possible(self, settings: Sequence[Setting]) -> list[Setting]:
        """The settings whose positions every demonstration has; the others are left out."""
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

    def variant(self, setting: Setting) -> Callable[[Batch], Variant]:
        """The demonstrations with isolated positions."""
        positions = isolated_positions(setting, self._prompt, len(self._token_ids))
        assert positions is not None
        if max(positions) >= len(self._token_ids):
            raise InputError(
                f"tasks.{task_of(self._prompt['task'])}.template: its queries begin differently "
                "from one another, so that demonstrations can't be isolated; begin it with a word."
            )
        layers = setting.isolated_layers(self._depth)
        prefix = compute_prefix(
            self._model,
            self._token_ids,
            Isolate(torch.tensor(positions), layers, setting.variant),
            resumed=self._kept.get(layers.start - 1),
            below=self.untouched,
        )
        # Queries read what is changed in the layer after the first isolated one.
        return lambda _: Variant(prefix, layers.start + 1)
