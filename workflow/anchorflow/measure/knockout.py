"""Predictions with edges of attention cut, some layers at a time.

Saliency estimates what an edge contributes to the loss; here edges are removed and the loss is
measured. For every class of edges, as many random edges of the same rows are cut too. Edges into
the shared demonstrations change their keys and values, so each such cut runs them again, from the
first of its layers on. Queries are run from there on too.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import compress
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from anchorflow.config.cells import task_of
from anchorflow.config.errors import InputError
from anchorflow.depth import bands_of
from anchorflow.measure.edges import CLASSES, WHOLE_ROWS, Edges, edges_of, matched_edges
from anchorflow.measure.interventions import (
    Interventions,
    Ran,
    measure_interventions,
)
from anchorflow.model.attention_function import (
    Attention,
    AttentionCall,
    attention_rows,
    mixed_rows,
)
from anchorflow.model.batches import Batch
from anchorflow.model.language_model import Answers, Resumed, keep_outputs
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.variants import CUTS_AT_ONCE, Variant
from anchorflow.model.word_scores import FIRST_TOKEN
from anchorflow.prepare.prompts import token_groups
from anchorflow.random_draws import generator
from anchorflow.schemas.knockout import KNOCKOUT

log = logging.getLogger(__name__)

_ROW_ELEMENTS = 2**20  # of the attention rows that are computed again at once


class Setting(NamedTuple):
    """What is cut where; the unmodified run cuts ``none``."""

    edges: str
    control: bool
    draw: int
    band: str
    layer: int
    layers: int

    @property
    def cut_layers(self) -> range:
        """The layers in which edges are cut."""
        return range(self.layer, self.layer + self.layers)


UNTOUCHED = Setting("none", False, 0, "none", -1, 0)


class Cut:
    """The intervention that cuts edges of attention in some layers.

    Only rows that lose an edge are computed anew; the others stay the same bit for bit.

    Parameters
    ----------
    edges : [1 or B, T, K], bool
        True from query row to key, which is counted from a prefix's first token.
    layers
        The layers in which they are cut, counted from 0.
    variant : str
        ``mask`` hides the keys before the softmax; ``zero`` sets their weights to 0 after it.
    """

    def __init__(self, edges: Tensor, layers: Collection[int], variant: str) -> None:
        (self._rows,) = edges.any(2).any(0).nonzero(as_tuple=True)
        self._edges = edges[:, self._rows]
        self._layers, self._variant = layers, variant
        self.count: Tensor | int = 0  # [B]: visible edges that were cut, over all layers
        self.reached: set[int] = set()  # of these layers
        self.changed = False  # whether any row came out otherwise

    @property
    def has_rows(self) -> bool:
        """Whether there is any edge to cut."""
        return len(self._rows) > 0

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's output, [B, H, T, D]."""
        output = attention(call)
        if call.layer not in self._layers or not self.has_rows:
            return output
        self.reached.add(call.layer)
        rows, edges = self._rows.to(output.device), self._edges.to(output.device)
        size, heads = output.shape[:2]
        step = max(1, _ROW_ELEMENTS // (size * heads * call.keys))
        for some, cut in zip(rows.split(step), edges.split(step, 1), strict=True):
            each = some.expand(size, -1)
            visible = ~call.hidden_from(each, slice(0, call.keys))[:, 0]
            gone = cut & visible  # [B, R, K]
            if self._variant == "mask":
                weights = attention_rows(call, each, cut)
            else:
                weights = attention_rows(call, each).masked_fill(cut[:, None], 0)
            before = output[:, :, some]
            now = mixed_rows(call, weights).to(output.dtype)
            now = torch.where(gone.any(2)[:, None, :, None], now, before)
            self.count = self.count + gone.sum((1, 2)).cpu()
            self.changed |= not torch.equal(now, before)
            output = output.index_copy(2, some, now)
        return output


def settings_of(
    classes: Sequence[str], layers: Sequence[str], draws: int, depth: int
) -> list[Setting]:
    """All requested settings, in the order of classes and layers.

    Parameters
    ----------
    classes : sequence of str
        Of ``CLASSES``.
    layers : sequence of str
        ``single``, ``thirds``, and ``all``.
    draws : int
        Draws of random edges in place of each class, but for those of ``WHOLE_ROWS``.
    depth : int
        The model's number of layers.
    """
    bands = [band for name in layers for band in bands_of(name, depth)]
    kinds = [(False, 0), *((True, draw) for draw in range(draws))]
    return [
        Setting(name, control, draw, *band)
        for name in classes
        for control, draw in kinds
        if not (control and name in WHOLE_ROWS)
        for band in bands
    ]


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Queries of every cut from its first layer on; demonstrations too if edges into them go."""
    settings = settings_of(spec["classes"], spec["layers"], spec["draws"], depth)
    asked = [1 - each.layer / depth for each in settings]
    inner = [not each.edges.endswith(("_target", "_query")) for each in settings]
    shown = sorted(compress(asked, inner))
    untouched = ceil((1 + len(asked)) / CUTS_AT_ONCE)
    return Cost(
        (1 + sum(shown)) * prompts.shown + (untouched + sum(asked)) * prompts.asked,
        copies=1 + sum(shown[-CUTS_AT_ONCE:]),
    )


def measure_knockout(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    variant: str,
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
        From :func:`settings_of`; the unmodified run is always added.
    variant : str
        ``mask`` or ``zero``; see :class:`Cut`.

    Returns
    -------
    DataFrame
        Columns of ``KNOCKOUT``.

    Raises
    ------
    InputError
        If keys are missing, logits are not finite, ``top_tokens`` exceeds the vocabulary, or a cut
        does not change the attention that it should.
    """
    return measure_interventions(
        model,
        prompts,
        lambda chosen: _Runs(model, chosen, settings, variant),
        KNOCKOUT,
        batch_tokens,
        examples,
        first,
        scoring,
        top_tokens,
    )


class CellEdges:
    """The edges of the prompts of a cell, which share their demonstrations, by class and draw."""

    def __init__(self, prompts: pl.DataFrame, shared: int) -> None:
        self._prompts = {row["example"]: row for row in prompts.iter_rows(named=True)}
        self._shared = shared
        self._first = next(iter(self._prompts.values()))
        self._known: dict[tuple[str, int | None, int | None], Edges] = {}

    def of_prefix(self, name: str, draw: int | None) -> Edges:
        """Edges among the shared tokens, [shared, shared]; with a draw, the random ones."""
        return self._drawn(name, draw, None)

    def of_query(self, name: str, draw: int | None, example: int) -> Edges:
        """Edges from the tokens after the shared ones, [tokens - shared, tokens]."""
        return self._drawn(name, draw, example)

    def _drawn(self, name: str, draw: int | None, example: int | None) -> Edges:
        key = (name, draw, example)
        if key not in self._known:
            prompt = self._first if example is None else self._prompts[example]
            whole, shared = edges_of(prompt, name), self._shared
            edges = whole[:shared, :shared] if example is None else whole[shared:]
            if draw is not None:
                purpose: list[str | int] = [task_of(prompt["task"]), "knockout", name, draw]
                if example is not None:
                    purpose.append(example)
                edges = matched_edges(edges, generator(prompt["seed"], *purpose))
            self._known[key] = edges
        return self._known[key]

    def in_queries(self, name: str, draw: int | None) -> bool:
        """Whether some prompt has such edges from the tokens after the shared ones."""
        return any(self.of_query(name, draw, example).any() for example in self._prompts)

    def anywhere(self, name: str, draw: int | None) -> bool:
        """Whether some prompt has such edges."""
        return bool(self.of_prefix(name, draw).any()) or self.in_queries(name, draw)

    def of_batch(self, name: str, draw: int | None, batch: Batch) -> Tensor:
        """Edges from the query rows of a batch, [B, T, shared + T], bool."""
        size, tokens = batch.input_ids.shape
        edges = torch.zeros(size, tokens, batch.prefix_tokens + tokens, dtype=torch.bool)
        for row, example in enumerate(batch.examples):
            own = torch.from_numpy(self.of_query(name, draw, example))
            edges[row, : own.shape[0], : own.shape[1]] = own
        return edges

    def of_whole(self, name: str, draw: int | None, batch: Batch) -> Tensor:
        """Edges of whole prompts, [B, T, T], bool."""
        size, tokens = batch.input_ids.shape
        edges = torch.zeros(size, tokens, tokens, dtype=torch.bool)
        edges[:, : self._shared, : self._shared] = torch.from_numpy(self.of_prefix(name, draw))
        for row, example in enumerate(batch.examples):
            own = torch.from_numpy(self.of_query(name, draw, example))
            edges[row, self._shared : self._shared + own.shape[0], : own.shape[1]] = own
        return edges


def _draw_of(setting: Setting) -> int | None:
    return setting.draw if setting.control else None


class _Runs(Interventions[Setting]):
    """What a cut does not affect is computed only once.

    Cutting edges of rows in layer l changes these rows from the output of layer l on, hence the
    keys and values of the prefix from layer l + 1 on. So queries begin after layer l, or with it if
    their own rows are cut.
    """

    unmodified = (UNTOUCHED,)

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: pl.DataFrame,
        settings: Sequence[Setting],
        variant: str,
    ) -> None:
        self._model, self._variant = model, variant
        self._token_ids = shared_token_ids(prompts)
        self._edges = CellEdges(prompts, len(self._token_ids))
        self._name, self._task = prompts["model"][0], task_of(prompts["task"][0])
        self.settings = self._possible(settings)
        below = {s.layer - 1 for s in self.settings if s.layer > 0}
        with keep_outputs(model, below) as kept:
            self.untouched = compute_prefix(model, self._token_ids)
        self._kept: Mapping[int, Resumed] = kept
        self._counts: dict[Setting, int] = {}  # edges cut in the prefix
        self._changed: dict[Setting, bool] = {}

    def _possible(self, settings: Sequence[Setting]) -> list[Setting]:
        """The settings that have edges in some prompt; the others are left out."""
        lacking = {
            (setting.edges, setting.control)
            for setting in settings
            if not self._edges.anywhere(setting.edges, _draw_of(setting))
        }
        for name, control in sorted(lacking):
            if (name, False) not in lacking or not control:
                log.warning(
                    "Not cut: %s%s. Prompts of task %s have no such pair of tokens "
                    "(knockout.classes).",
                    "random edges in place of those " if control else "edges ",
                    CLASSES[name],
                    self._task,
                )
        return [s for s in settings if (s.edges, s.control) not in lacking]

    def variant(self, setting: Setting) -> Callable[[Batch], Variant]:
        """The demonstrations with edges cut, if they have such; queries with their own edges cut.

        Raises
        ------
        InputError
            If a layer does not pass its attention through the intervention.
        """
        draw, prefix = _draw_of(setting), self.untouched
        edges = self._edges.of_prefix(setting.edges, draw)
        if edges.any():
            cut = Cut(torch.from_numpy(edges)[None], setting.cut_layers, self._variant)
            prefix = compute_prefix(
                self._model,
                self._token_ids,
                cut,
                resumed=self._kept.get(setting.layer - 1),
                below=self.untouched,
            )
            self._counts[setting] = int(cut.count)
            self._note(setting, cut)
        # A row that is cut differs in the layer itself; what the prefix has, from the next on.
        start = setting.layer + (not self._edges.in_queries(setting.edges, draw))

        def of_batch(batch: Batch) -> Variant:
            own = self._edges.of_batch(setting.edges, draw, batch)
            on_words = partial(self._cut_as_target, own, setting, batch)
            return Variant(prefix, start, (Cut(own, setting.cut_layers, self._variant),), on_words)

        return of_batch

    def columns(self, batch: Batch, ran: Ran[Setting], plain: Answers) -> Mapping[str, Any]:
        """How many edges each prompt lost, and the loss of the label words' first tokens.

        Raises
        ------
        InputError
            As :meth:`variant`.
        """
        counts = torch.zeros(batch.size, dtype=torch.long)
        if ran.variant is not None:
            (cut,) = ran.variant.interventions
            assert isinstance(cut, Cut)
            counts = counts + cut.count + self._counts.get(ran.setting, 0)
            self._note(ran.setting, cut)
        first = torch.tensor(token_groups(batch.label_tokens.tolist()))[batch.labels.cpu()]
        loss = cross_entropy(ran.answers.label_logits.double().cpu(), first, reduction="none")
        return {"cut": pl.Series(counts.tolist()), "loss": pl.Series(loss.tolist())}

    def _note(self, setting: Setting, cut: Cut) -> None:
        """Remember whether cutting edges that were visible changed anything so far.

        Raises
        ------
        InputError
            If a layer does not pass its attention through the intervention.
        """
        missing = {*setting.cut_layers} - cut.reached
        if cut.has_rows and missing:
            raise InputError(
                f"knockout: {len(missing)} layers of model {self._name} do not pass their "
                "attention through the attention interface, so no edges can be cut there; choose "
                "a supported architecture."
            )
        if bool(torch.as_tensor(cut.count).any()):
            self._changed[setting] = self._changed.get(setting, False) or cut.changed

    def check(self) -> None:
        """Raise InputError if cutting edges did not change any of their rows."""
        for setting, changed in self._changed.items():
            if not changed:
                raise InputError(
                    f"knockout.classes: cutting {setting.edges} from layer {setting.layer} on "
                    f"changed nothing of the attention of model {self._name} in task "
                    f"{self._task}, though there is something to cut; leave the class out, or try "
                    '"dtype: float32" for the model.'
                )

    def _cut_as_target(
        self, edges: Tensor, setting: Setting, batch: Batch, rows: int
    ) -> tuple[Cut]:
        """The cut on the ``rows`` tokens of a label word that follow the target.

        They predict the word's next tokens from what the target sees, and no more.
        """
        at = batch.target_rows.cpu()[:, None, None].expand(-1, rows, edges.shape[2])
        own = torch.zeros(batch.size, rows, rows, dtype=torch.bool)
        cut = torch.cat([edges.gather(1, at), own], 2)
        return (Cut(cut, setting.cut_layers, self._variant),)
