"""Activations of some tokens of the demonstrations, transplanted from one prompt into another.

The donor is as long as the recipient, and has other texts or other label words. If label words
carry the answer, transplanting the donor's vectors at label words alone moves the answer to the
donor's. Where the label words are the same, their vectors differ by what they have gathered from
the texts alone, and those of the texts differ from the first layer on. Queries attend to keys and
values, so exchanging these needs no further run of the demonstrations; after an exchange of a
layer's output, the layers above are run again.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, cycle
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.analyses.transplant import TRANSPLANT
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.interventions import (
    CUTS_AT_ONCE,
    BatchRun,
    IntervenedRun,
    Interventions,
    measure_interventions,
)
from anchorflow.model.last_tokens import FIRST_TOKEN
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.layers import Resumed, keep_outputs
from anchorflow.model.logits import Answers, target_states
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.run_again import hidden_states
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.positions import label_word_tokens, matched_positions
from anchorflow.prepare.samples import exchanged
from anchorflow.random_draws import generator
from anchorflow.schemas.prompts import PROMPTS

log = logging.getLogger(__name__)

OTHER_TEXTS, OTHER_TASK = "other_texts", "other_task"  # donors with the recipient's label words
SAME_WORDS = (OTHER_TEXTS, OTHER_TASK)
TARGET = "target"
_EXCHANGED = {"keys_values": ("key", "value"), "keys": ("key",), "values": ("value",)}
_NO_WORDS = (
    "No transplants from %s label words: no two label words of task %s have the same number of "
    "tokens, so none can replace another (transplant.donors)."
)
_NO_TEXTS = (
    "No transplants from %s: a label has more than half of the demonstrations of task %s, or a "
    "text has no other token than the first one and those with characters of the template "
    "(transplant.donors)."
)
_NO_TASK = (
    "No transplants from %s: no other task of the run that fits the context has the label words of "
    "task %s; give one these labels (tasks.*.labels, tasks.*.label_words)."
)
WITH_LABEL_WORDS = ("label", "one_label", "demonstrations")


class Setting(NamedTuple):
    """Which vectors are taken from which donor, and where; ``none`` in the recipient's own run."""

    donor: str
    what: str
    places: str
    draw: int
    side: str
    layer: int
    layers: int


UNTOUCHED = Setting("none", "none", "none", 0, "none", -1, 0)


def own_answer(donor: str, draw: int) -> Setting:
    """The setting of the donor's own answer."""
    return Setting(donor, "prompt", "none", draw, "none", -1, 0)


def settings_of(
    places: Sequence[str],
    donors: Sequence[str],
    what: Sequence[str],
    depths: int,
    draws: int,
    depth: int,
    window: int = 0,
) -> list[Setting]:
    """All requested settings, and the donors' own answers.

    ``depths`` is how many numbers of layers to take, evenly spaced; see :func:`bands_at`. At the
    target, only the residual stream is taken.
    """
    found = []
    for donor in donors:
        for draw in range(draws):
            found.append(own_answer(donor, draw))
            for vectors in what:
                bands = bands_at(vectors, depths, depth, window)
                found += [
                    Setting(donor, vectors, at, draw, *band)
                    for at in places
                    if at != TARGET or vectors == "residual"
                    for band in bands
                ]
    return found


def _requested(spec: Mapping[str, Any], depth: int) -> list[Setting]:
    how = spec["places"], spec["donors"], spec["what"], spec["depths"], spec["draws"]
    return settings_of(*how, depth, spec["window"])


def bands_at(what: str, depths: int, depth: int, window: int = 0) -> list[tuple[str, int, int]]:
    """Side, first layer, and number of layers of each band of layers that is taken.

    For keys and values: all layers, each third, and the first or last l layers for ``depths``
    evenly spaced l. With a ``window``, of so many layers: all layers, and ``depths`` windows,
    evenly spaced from the first to the last one. For the residual stream: single layers, the last
    before each l.
    """
    numbers = sorted({round(depth * step / depths) for step in range(1, depths)} - {0})
    if what == "residual":
        return [("at", number - 1, 1) for number in numbers]
    if window:
        last = max(0, depth - window)
        starts = sorted({round(last * step / max(1, depths - 1)) for step in range(depths)})
        return [("all", 0, depth), *(("window", start, window) for start in starts if last)]
    third = max(1, depth // 3)
    numbers = sorted({*numbers, third} - {depth})
    bands = [("all", 0, depth)]
    if depth > 2 * third:
        bands.append(("middle", third, depth - 2 * third))
    bands += [("first", 0, number) for number in numbers]
    return bands + [("last", depth - number, number) for number in numbers]


def donor_words(
    prompt: Mapping[str, Any], donor: str, random: np.random.Generator
) -> dict[int, list[int]] | None:
    """The tokens that the donor has in place of each demonstration's label word.

    A word replaces only words with the same number of tokens, so that all positions stay. The donor
    ``permuted`` gives every class the word of another class; it keeps its own if no other has the
    same number of tokens. ``drawn`` permutes the demonstrations' words, such that at least one
    demonstration gets another word. The result has only demonstrations whose word changes, and is
    None if no word can change.
    """
    spans = label_word_tokens(prompt)
    words = [[prompt["token_ids"][t] for t in span] for span in spans]
    labels = prompt["demonstration_labels"]
    # Reversed, so that the first demonstration of a label gives its word.
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


def donor_texts(prompt: Mapping[str, Any], random: np.random.Generator) -> dict[int, int] | None:
    """The tokens that the donor has in place of the demonstrations' texts, by their positions.

    Every text is exchanged for that of a demonstration of another class, field by field, and cut or
    repeated to the number of tokens of the text that it replaces, so that all positions stay.
    Tokens with characters of the template, too, stay as they are, as does the prompt's first token.
    None if a label has more than half of the demonstrations, or a text no tokens of its own.
    """
    labels = prompt["demonstration_labels"]
    if 2 * max(map(labels.count, labels)) > len(labels):
        return None
    fields, spans = len(prompt["field_names"]), _field_tokens(prompt)
    replaced: dict[int, int] = {}
    for k, other in enumerate(exchanged(labels, random)):
        for field in range(fields):
            span, source = spans[k * fields + field], spans[other * fields + field]
            if not span or not source:
                return None
            tokens = cycle(prompt["token_ids"][token] for token in source)
            replaced.update(zip(span, tokens, strict=False))
    return replaced


def texts_of_other_task(
    prompt: Mapping[str, Any], other: Mapping[str, Any], random: np.random.Generator
) -> dict[int, int] | None:
    """As :func:`donor_texts`, with texts of the demonstrations of another task's prompt.

    Every text is exchanged for that of a demonstration with the same label word, all fields in a
    row, so that label words and template stay. None if the other prompt lacks a label word, or a
    text has no tokens of its own.
    """
    words, others = (_words_of_demonstrations(each) for each in (prompt, other))
    spans, sources = _field_tokens(prompt), _field_tokens(other)
    fields, of_other = len(prompt["field_names"]), len(other["field_names"])
    replaced: dict[int, int] = {}
    for word in sorted(set(words)):
        alike = [k for k, of_demonstration in enumerate(others) if of_demonstration == word]
        shown = [k for k, of_demonstration in enumerate(words) if of_demonstration == word]
        if not alike:
            return None
        for k, source in zip(shown, cycle(random.permutation(alike).tolist()), strict=False):
            own = [*chain(*spans[k * fields : (k + 1) * fields])]
            text = [*chain(*sources[source * of_other : (source + 1) * of_other])]
            if not own or not text:
                return None
            tokens = cycle(other["token_ids"][token] for token in text)
            replaced.update(zip(own, tokens, strict=False))
    return replaced


def _words_of_demonstrations(prompt: Mapping[str, Any]) -> list[tuple[int, ...]]:
    return [tuple(prompt["word_tokens"][label]) for label in prompt["demonstration_labels"]]


def _field_tokens(prompt: Mapping[str, Any]) -> list[list[int]]:
    """The tokens of each field alone, as ``field_starts``, without the prompt's first token."""
    merged = {0, *prompt["merged_positions"]}
    return [
        [token for token in range(start, end) if token not in merged]
        for start, end in zip(prompt["field_starts"], prompt["field_ends"], strict=True)
    ]


def places_of(
    prompt: Mapping[str, Any],
    places: str,
    changed: Collection[int],
    shared: int,
    random: np.random.Generator,
) -> list[int] | None:
    """The tokens of the demonstrations at which vectors are taken.

    ``changed`` are the demonstrations that differ in the donor. The tokens are in increasing order;
    None if a demonstration has no such token.
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
        template = [token for token in range(start, min(end, shared)) if token in formats]
        if not template:
            return None
        drawn += random.permutation(template)[: len(word)].tolist()
    return sorted(drawn)


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Donors, and for every transplant the layers above it."""
    settings = _requested(spec, depth)
    donors = len(spec["donors"]) * spec["draws"]
    above = {
        setting: 1 - (setting.layer + (setting.what not in _EXCHANGED)) / depth
        for setting in settings
    }
    again = sum(
        share
        for setting, share in above.items()
        if setting.what == "residual" and setting.places != TARGET
    )
    groups = ceil(len(settings) / CUTS_AT_ONCE)
    asked = sum(above.values()) + groups * (1 + (TARGET in spec["places"]))
    return Cost(
        (1 + donors + again) * prompts.demonstrations + asked * prompts.asked,
        copies=1 + donors + CUTS_AT_ONCE,
    )


def measure_transplant(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
    other: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """Predictions under every setting of :func:`settings_of`; see :func:`measure_interventions`.

    The recipient's own answer is added. ``other`` are prompts of another task with the same label
    words, if there are any.
    """
    at_target = any(setting.places == TARGET for setting in settings)
    if at_target and scoring["scoring"] != "first_token" and runs_again(model.config):
        raise InputError(
            "transplant.places: at the target of a model that carries a state from token to token, "
            "label words are scored by their first tokens only; leave target out, or set "
            '"scoring: first_token".'
        )
    return measure_interventions(
        model,
        prompts,
        lambda chosen: _Runs(model, chosen, settings, other),
        TRANSPLANT,
        batch_tokens,
        examples,
        scoring,
    )


def transplants(
    model: PreTrainedModel, prompts: pl.DataFrame, settings: Sequence[Setting]
) -> Interventions[Setting]:
    """The runs of some settings, of which those that are possible with these prompts."""
    return _Runs(model, prompts, settings)


class _Run(NamedTuple):
    """The shared tokens of one prompt, run once."""

    prefix: Prefix
    outputs: Mapping[int, Resumed]  # of the layers whose residual stream is taken


class _Donor(NamedTuple):
    run: _Run
    token_ids: list[int]  # of the shared tokens
    changed: frozenset[int]  # demonstrations that differ


class _Runs(Interventions[Setting]):
    """Recipient and donors, run once each, and the transplants between them."""

    unmodified = (UNTOUCHED,)

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: pl.DataFrame,
        settings: Sequence[Setting],
        other: pl.DataFrame | None = None,
    ) -> None:
        self._model = model
        self._other = None if other is None else runnable(other, "fixed").head(1)
        self._of_batch: tuple[Batch | None, dict[tuple[str, int], Mapping[int, Tensor]]] = None, {}
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
        """Whether the donor differs and has such places; if not, warn the first time."""
        key = (setting.donor, setting.draw)
        if key not in self._donors:
            self._donors[key] = self._donor(setting)
            if self._donors[key] is None:
                why = {OTHER_TEXTS: _NO_TEXTS, OTHER_TASK: _NO_TASK}.get(setting.donor, _NO_WORDS)
                log.warning(why, setting.donor, self._task)
        donor = self._donors[key]
        if donor is None or setting.places in ("none", TARGET):
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

    def _donor(self, setting: Setting) -> _Donor | None:
        spans = label_word_tokens(self._prompt)
        changed = frozenset(range(len(spans)))
        if setting.donor == OTHER_TEXTS:
            replaced = donor_texts(self._prompt, self._random(setting))
        elif setting.donor == OTHER_TASK:
            replaced = None
            if self._other is not None and len(self._other):
                other = self._other.row(0, named=True)
                replaced = texts_of_other_task(self._prompt, other, self._random(setting))
        else:
            words = donor_words(self._prompt, setting.donor, self._random(setting)) or {}
            changed = frozenset(words)
            places = (zip(spans[k], word, strict=True) for k, word in words.items())
            replaced = dict(chain.from_iterable(places)) or None
        if replaced is None:
            return None
        token_ids = [replaced.get(at, token) for at, token in enumerate(self._token_ids)]
        return _Donor(self._run(token_ids), token_ids, changed)

    def columns(self, batch: Batch, ran: BatchRun[Setting], plain: Answers) -> Mapping[str, Any]:
        """The number of places at which vectors are taken."""
        setting = ran.setting
        places = self._places.get((setting.donor, setting.places, setting.draw)) or []
        return {"tokens": pl.lit(1 if setting.places == TARGET else len(places))}

    def intervened(self, setting: Setting) -> Callable[[Batch], IntervenedRun]:
        """The recipient's prefix with the vectors taken from the donor."""
        if setting.places == TARGET:
            return partial(self._at_target, setting)
        run = self._intervened(setting)
        return lambda _: run

    def _at_target(self, setting: Setting, batch: Batch) -> IntervenedRun:
        """The recipient's run with the donor's output of a layer at the targets."""
        taken = self._at_targets(setting, batch)[setting.layer]

        def changed(own: Resumed) -> Resumed:
            hidden, rest = hidden_states(own.output)
            hidden = hidden.clone()
            hidden[self._targets(batch, own, hidden)] = taken.to(hidden.device)
            return replace(own, output=hidden if rest is None else (hidden, *rest))

        return IntervenedRun(self.untouched, setting.layer + 1, changed=changed)

    def _at_targets(self, setting: Setting, batch: Batch) -> Mapping[int, Tensor]:
        """The donor's outputs at the targets by layer, run once for all settings of a batch."""
        if self._of_batch[0] is not batch:
            self._of_batch = batch, {}
        key, known = (setting.donor, setting.draw), self._of_batch[1]
        if key not in known:
            donor = self._donors[key]
            assert donor is not None
            with keep_outputs(self._model, self._kept) as outputs, intervene(donor.run.prefix):
                target_states(self._model, batch)
            ended = {n: (of, hidden_states(of.output)[0]) for n, of in outputs.items()}
            known[key] = {n: at[self._targets(batch, of, at)] for n, (of, at) in ended.items()}
        return known[key]

    def _targets(
        self, batch: Batch, resumed: Resumed, hidden: Tensor
    ) -> tuple[slice | Tensor, ...]:
        """The index of the target of every example in the hidden states of a layer's output."""
        before = self._shared if runs_again(self._model.config) else 0  # which run again, too
        rows = (batch.target_rows + before).to(hidden.device)
        examples = torch.arange(batch.size, device=hidden.device)
        return *(slice(None),) * resumed.batch, examples, rows

    def _intervened(self, setting: Setting) -> IntervenedRun:
        """The variant of :meth:`intervened`, which is the same for all batches."""
        donor = self._donors[setting.donor, setting.draw]
        assert donor is not None
        if setting.what == "prompt":
            return IntervenedRun(donor.run.prefix, 0)
        places = self._places[setting.donor, setting.places, setting.draw]
        at = torch.tensor(places, device=self._model.device)
        if setting.what == "residual":
            return self._with_residual(setting, donor, at)
        layers, differ = dict(self._recipient.prefix.layers), False
        for number in range(setting.layer, setting.layer + setting.layers):
            recipient, taken = layers[number], donor.run.prefix.layers[number]
            exchanged = {
                part: _with_donor(getattr(recipient, part), getattr(taken, part), at, 2)
                for part in _EXCHANGED[setting.what]
            }
            layers[number] = replace(recipient, **exchanged)
            part = "value" if "value" in exchanged else "key"
            differ |= not torch.equal(getattr(recipient, part), exchanged[part])
        self._check_differs(setting, differ)
        return IntervenedRun(replace(self._recipient.prefix, layers=layers), setting.layer)

    def _with_residual(self, setting: Setting, donor: _Donor, at: Tensor) -> IntervenedRun:
        recipient, taken = (run.outputs[setting.layer] for run in (self._recipient, donor.run))
        hidden, rest = hidden_states(recipient.output)
        tokens = recipient.batch + 1
        exchanged = _with_donor(hidden, hidden_states(taken.output)[0], at, tokens)
        self._check_differs(setting, not torch.equal(exchanged, hidden))
        output = exchanged if rest is None else (exchanged, *rest)
        prefix = compute_prefix(
            self._model,
            self._token_ids,
            resumed=replace(recipient, output=output),
            below=self._recipient.prefix,
        )
        return IntervenedRun(prefix, setting.layer + 1)

    def _check_differs(self, setting: Setting, differ: bool) -> None:
        # In the first layer, equal label words have equal vectors whatever the texts are.
        if not differ and setting.places in WITH_LABEL_WORDS and setting.donor not in SAME_WORDS:
            layer = attention_layers(self._model.config)[setting.layer]
            raise InputError(
                f"transplant: {setting.what} at label words of model {self._prompt['model']} do "
                f"not depend on the words in task {self._task}, layer {layer}; transplants "
                "cannot be measured for this model."
            )


def _with_donor(recipient: Tensor, donor: Tensor, at: Tensor, dimension: int) -> Tensor:
    """The recipient's entries, with the donor's at some places of a dimension."""
    at = at.to(recipient.device)
    return recipient.index_copy(dimension, at, donor.index_select(dimension, at))


def measure(cell: Cell) -> None:
    settings = _requested(cell.spec, cell.depth)
    if (window := cell.spec["window"]) >= cell.depth:
        log.warning(
            "No windows: transplant.window is %d, and model %s has %d layers that attend.",
            window,
            cell.card["name"],
            cell.depth,
        )
    other = cell.read("other_task", PROMPTS) if cell.input.get("other_task") else None
    cell.measure(TRANSPLANT, cost, partial(measure_transplant, settings=settings, other=other))
