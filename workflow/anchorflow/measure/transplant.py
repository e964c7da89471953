"""Vectors of some tokens of the demonstrations, put from one prompt into another.

Donor and recipient have the same texts at the same positions, and different label words. If label
words carry the answer, taking over what the donor has at them alone moves the answer to the
donor's. Queries attend to keys and values, so exchanging these needs no further run of the
demonstrations; after an exchange of a layer's output, the layers above are run again.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.config.cells import task_of
from anchorflow.config.errors import InputError
from anchorflow.measure.interventions import Interventions, Ran, measure_interventions
from anchorflow.measure.token_kinds import label_word_tokens, matched_positions
from anchorflow.model.attention_function import LayerPrefix
from anchorflow.model.batches import Batch
from anchorflow.model.language_model import Answers, Resumed, keep_outputs
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.variants import CUTS_AT_ONCE, Variant
from anchorflow.model.word_scores import FIRST_TOKEN
from anchorflow.random_draws import generator
from anchorflow.schemas.transplant import TRANSPLANT

log = logging.getLogger(__name__)

WITH_LABEL_WORDS = ("label", "one_label", "demonstrations")


class Setting(NamedTuple):
    """What is taken from which donor, where; the recipient itself takes nothing."""

    donor: str
    what: str
    places: str
    draw: int
    side: str
    layer: int
    layers: int


UNTOUCHED = Setting("none", "none", "none", 0, "none", -1, 0)


def own_answer(donor: str, draw: int) -> Setting:
    """The donor's own answer."""
    return Setting(donor, "prompt", "none", draw, "none", -1, 0)


def settings_of(
    places: Sequence[str],
    donors: Sequence[str],
    what: Sequence[str],
    depths: int,
    draws: int,
    depth: int,
) -> list[Setting]:
    """All requested settings, and the donors' own answers.

    Parameters
    ----------
    places, donors, what : sequence of str
        As in the configuration.
    depths : int
        Numbers of layers to take, evenly spaced; see :func:`bands_at`.
    draws : int
        Draws of each donor, and of random places.
    depth : int
        The model's number of layers.
    """
    found = []
    for donor in donors:
        for draw in range(draws):
            found.append(own_answer(donor, draw))
            for each in what:
                bands = bands_at(each, depths, depth)
                found += [Setting(donor, each, at, draw, *band) for at in places for band in bands]
    return found


def bands_at(what: str, depths: int, depth: int) -> list[tuple[str, int, int]]:
    """Side, first layer, and number of layers of what is taken.

    Of keys and values, all layers, the middle third, and the first or last l, for ``depths`` evenly
    spaced l. Of the residual stream, single layers: the last before each of these l.
    """
    numbers = sorted({round(depth * step / depths) for step in range(1, depths)} - {0})
    if what == "residual":
        return [("at", number - 1, 1) for number in numbers]
    third = max(1, depth // 3)
    bands = [("all", 0, depth)]
    if depth > 2 * third:
        bands.append(("middle", third, depth - 2 * third))
    bands += [("first", 0, number) for number in numbers]
    return bands + [("last", depth - number, number) for number in numbers]


def donor_words(
    prompt: Mapping[str, Any], donor: str, random: np.random.Generator
) -> dict[int, list[int]] | None:
    """The tokens that the donor has in place of each demonstration's label word.

    Words take the place of words with as many tokens alone, so that all positions stay.

    Parameters
    ----------
    prompt : mapping
        A row of ``PROMPTS``.
    donor : str
        ``permuted``: every class has another one's word, or its own if no other has as many tokens.
        ``drawn``: the demonstrations' words change places, at least one of them for another word.
    random : numpy.random.Generator
        Draws which.

    Returns
    -------
    dict of int to list of int, or None
        Tokens by demonstration, of those whose word is another; None if there is no other word.
    """
    spans = label_word_tokens(prompt)
    words = [[prompt["token_ids"][t] for t in span] for span in spans]
    labels = prompt["demonstration_labels"]
    of_label = {label: words[k] for k, label in reversed([*enumerate(labels)])}
    by_length: dict[int, list[int]] = {}
    for label in sorted(of_label):
        by_length.setdefault(len(of_label[label]), []).append(label)
    others: dict[int, int] = {}
    for alike in by_length.values():
        order = random.permutation(alike).tolist()
        others |= dict(zip(order, order[1:] + order[:1], strict=True))
    changed = {
        k: of_label[others[label]]
        for k, label in enumerate(labels)
        if of_label[others[label]] != words[k]
    }
    if not changed or donor == "permuted":
        return changed or None
    by_length = {}
    for k, word in enumerate(words):
        by_length.setdefault(len(word), []).append(k)
    while True:
        moved: dict[int, int] = {}
        for alike in by_length.values():
            moved |= dict(zip(alike, random.permutation(alike).tolist(), strict=True))
        changed = {k: words[source] for k, source in moved.items() if words[source] != words[k]}
        if changed:
            return changed


def places_of(
    prompt: Mapping[str, Any],
    places: str,
    changed: Collection[int],
    shared: int,
    random: np.random.Generator,
) -> list[int] | None:
    """The tokens of the demonstrations at which vectors are taken.

    Parameters
    ----------
    changed : collection of int
        Demonstrations whose label words differ in the donor.
    shared : int
        Number of tokens that all prompts of the cell share.

    Returns
    -------
    list of int or None
        In increasing order; None if a demonstration has no such token.
    """
    words = label_word_tokens(prompt)
    labels = set(chain.from_iterable(words))
    if places == "label":
        return sorted(labels)
    if places == "one_label":
        return words[random.choice(sorted(changed))]
    if places == "demonstrations":
        return list(range(shared))
    if places == "rest":
        return [token for token in range(shared) if token not in labels]
    if places == "text":
        found = matched_positions(prompt, "text", random)
        return found if found is not None and max(found) < shared else None
    formats, drawn = {*prompt["format_positions"]} - {0, *labels}, []
    spans = zip(prompt["demonstration_starts"], prompt["demonstration_ends"], words, strict=True)
    for start, end, word in spans:
        own = [token for token in range(start, min(end, shared)) if token in formats]
        if not own:
            return None
        drawn += random.permutation(own)[: len(word)].tolist()
    return sorted(drawn)


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Donors, and what lies above each layer of them that is taken."""
    how = spec["places"], spec["donors"], spec["what"], spec["depths"], spec["draws"]
    settings = settings_of(*how, depth)
    donors = len(spec["donors"]) * spec["draws"]
    above = {each: 1 - (each.layer + (each.what != "keys_values")) / depth for each in settings}
    again = sum(share for each, share in above.items() if each.what == "residual")
    asked = sum(above.values()) + ceil(len(settings) / CUTS_AT_ONCE)
    return Cost(
        (1 + donors + again) * prompts.shown + asked * prompts.asked,
        copies=1 + donors + CUTS_AT_ONCE,
    )


def measure_transplant(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    batch_tokens: int,
    examples: Collection[int] | None = None,
    first: int | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions under every setting; for other parameters see :func:`measure_interventions`.

    Parameters
    ----------
    settings : sequence of Setting
        From :func:`settings_of`; the recipient's own answer is always added.

    Returns
    -------
    DataFrame
        Columns of ``TRANSPLANT``.

    Raises
    ------
    InputError
        If keys are missing, logits are not finite, queries begin before label words end, or what
        is taken does not differ where it must.
    """
    return measure_interventions(
        model,
        prompts,
        lambda chosen: _Runs(model, chosen, settings),
        TRANSPLANT,
        batch_tokens,
        examples,
        first,
        scoring,
    )


class _Run(NamedTuple):
    """The shared tokens of one prompt, run once."""

    prefix: Prefix
    outputs: Mapping[int, Resumed]  # of the layers whose residual stream is taken


class _Donor(NamedTuple):
    run: _Run
    changed: Mapping[int, list[int]]  # tokens of other label words, by demonstration


class _Runs(Interventions[Setting]):
    """Recipient and donors, run once each, and what is made of them."""

    unmodified = (UNTOUCHED,)

    def __init__(
        self, model: PreTrainedModel, prompts: pl.DataFrame, settings: Sequence[Setting]
    ) -> None:
        self._model = model
        self._prompt = prompts.row(0, named=True)
        self._token_ids = shared_token_ids(prompts)
        self._shared = len(self._token_ids)
        self._task = task_of(self._prompt["task"])
        if max(self._prompt["label_ends"]) > self._shared:
            raise InputError(
                f"tasks.{self._task}.template: its queries begin differently from one another, so "
                "that label words have no common vectors; begin it with a word."
            )
        self._kept = {s.layer for s in settings if s.what == "residual"}
        self._recipient = self._run(self._token_ids)
        self.untouched = self._recipient.prefix
        self._donors: dict[tuple[str, int], _Donor | None] = {}
        self._places: dict[tuple[str, str, int], list[int] | None] = {}
        self.settings = [setting for setting in settings if self._possible(setting)]

    def _run(self, token_ids: Sequence[int]) -> _Run:
        with keep_outputs(self._model, self._kept) as outputs:
            return _Run(compute_prefix(self._model, token_ids), dict(outputs))

    def _random(self, setting: Setting, *purpose: str) -> np.random.Generator:
        return generator(
            self._prompt["seed"], self._task, "transplant", *purpose, setting.donor, setting.draw
        )

    def _possible(self, setting: Setting) -> bool:
        """Whether the donor differs and has such places; if not, the first time, a warning."""
        key = (setting.donor, setting.draw)
        if key not in self._donors:
            changed = donor_words(self._prompt, setting.donor, self._random(setting))
            self._donors[key] = None if changed is None else self._donor(changed)
            if changed is None:
                log.warning(
                    "No transplants from %s label words: those of task %s have no other word of "
                    "as many tokens to take their place (transplant.donors).",
                    setting.donor,
                    self._task,
                )
        donor = self._donors[key]
        if donor is None or setting.places == "none":
            return donor is not None
        of_places = (setting.donor, setting.places, setting.draw)
        if of_places not in self._places:
            random = self._random(setting, setting.places)
            found = places_of(self._prompt, setting.places, donor.changed, self._shared, random)
            self._places[of_places] = found
            if found is None:
                log.warning(
                    "No transplants at %s tokens: a demonstration of task %s has none that all "
                    "prompts share (transplant.places).",
                    setting.places,
                    self._task,
                )
        return self._places[of_places] is not None

    def _donor(self, changed: Mapping[int, list[int]]) -> _Donor:
        token_ids = list(self._token_ids)
        for k, word in changed.items():
            start, end = self._prompt["label_positions"][k], self._prompt["label_ends"][k]
            token_ids[start:end] = word
        return _Donor(self._run(token_ids), changed)

    def columns(self, batch: Batch, ran: Ran[Setting], plain: Answers) -> Mapping[str, Any]:
        """The number of places at which something is taken."""
        setting = ran.setting
        places = self._places.get((setting.donor, setting.places, setting.draw))
        return {"tokens": pl.lit(0 if places is None else len(places))}

    def variant(self, setting: Setting) -> Callable[[Batch], Variant]:
        """The recipient's prefix with what is taken from the donor."""
        variant = self._variant(setting)
        return lambda _: variant

    def _variant(self, setting: Setting) -> Variant:
        """What :meth:`variant` makes of any batch.

        Raises
        ------
        InputError
            If nothing differs although label words do.
        """
        donor = self._donors[setting.donor, setting.draw]
        assert donor is not None
        if setting.what == "prompt":
            return Variant(donor.run.prefix, 0)
        places = self._places[setting.donor, setting.places, setting.draw]
        at = torch.tensor(places, device=self._model.device)
        if setting.what == "residual":
            return self._with_residual(setting, donor, at)
        layers, differ = dict(self._recipient.prefix.layers), False
        for number in range(setting.layer, setting.layer + setting.layers):
            own, other = layers[number], donor.run.prefix.layers[number]
            layers[number] = LayerPrefix(
                _exchanged(own.key, other.key, at, 2), _exchanged(own.value, other.value, at, 2)
            )
            differ |= not torch.equal(own.value, layers[number].value)
        self._check_differs(setting, differ)
        return Variant(replace(self._recipient.prefix, layers=layers), setting.layer)

    def _with_residual(self, setting: Setting, donor: _Donor, at: Tensor) -> Variant:
        own, other = (run.outputs[setting.layer] for run in (self._recipient, donor.run))
        hidden, rest = _hidden(own.output)
        exchanged = _exchanged(hidden, _hidden(other.output)[0], at, 1)
        self._check_differs(setting, not torch.equal(exchanged, hidden))
        output = exchanged if rest is None else (exchanged, *rest)
        prefix = compute_prefix(
            self._model,
            self._token_ids,
            resumed=Resumed(setting.layer, output),
            below=self._recipient.prefix,
        )
        return Variant(prefix, setting.layer + 1)

    def _check_differs(self, setting: Setting, differ: bool) -> None:
        if not differ and setting.places in WITH_LABEL_WORDS:
            raise InputError(
                f"transplant: {setting.what} at label words of model {self._prompt['model']} do "
                f"not depend on these in task {self._task}, layer {setting.layer}; the model "
                "cannot be measured so."
            )


def _exchanged(own: Tensor, other: Tensor, at: Tensor, dimension: int) -> Tensor:
    """``own`` with the entries of ``other`` at some places of a dimension."""
    at = at.to(own.device)
    return own.index_copy(dimension, at, other.index_select(dimension, at))


def _hidden(output: Any) -> tuple[Tensor, tuple[Any, ...] | None]:
    """A layer's hidden states [1, T, hidden], and what else it returns, if that is a tuple."""
    return (output[0], output[1:]) if isinstance(output, tuple) else (output, None)
