"""Predictions with edges of attention cut in one layer or several.

Saliency estimates an edge's contribution to the loss; here the edge is removed and the loss is
measured. The control of each class of edges is the same number of random edges in the same rows.
Cutting edges into the shared demonstrations changes their keys and values, so the demonstrations
are run again from the first layer with a cut, and so are the queries.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import compress
from math import ceil
from typing import Any, NamedTuple

import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from anchorflow.analyses.knockout import KNOCKOUT
from anchorflow.config.cell_names import task_of
from anchorflow.config.errors import InputError
from anchorflow.depth import bands_of
from anchorflow.model.attention_function import Attention, AttentionCall, attention_rows, mixed_rows
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
from anchorflow.model.layers import Resumed, keep_outputs
from anchorflow.model.logits import Answers
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.tokenizer import token_groups
from anchorflow.prepare.positions import (
    AS_HEAVY,
    CLASSES,
    WHOLE_ROWS,
    Edges,
    edges_of,
    matched_edges,
    random_ranks,
)
from anchorflow.random_draws import generator

log = logging.getLogger(__name__)

_ROW_ELEMENTS = 2**20  # attention weights recomputed at once; bounds the memory of a cut


class Setting(NamedTuple):
    """Which edges are cut in which layers; ``none`` in the unmodified run."""

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

    Only rows that lose an edge are recomputed; the others stay identical bit for bit.

    ``edges``, [1 or B, T, K], is true where the edge from a query row to a key is cut; keys are
    counted from the first token of the prefix. The ``variant`` ``mask`` hides the keys before the
    softmax; ``zero`` sets their weights to 0 after it. With ``ranks``, [1 or B, T, K], other keys
    than those of ``edges`` are cut, in the order of their ranks, as many as hold the same attention
    in this layer (see :func:`as_heavy`).
    """

    def __init__(
        self, edges: Tensor, layers: Collection[int], variant: str, ranks: Tensor | None = None
    ) -> None:
        (self._rows,) = edges.any(2).any(0).nonzero(as_tuple=True)
        self._edges = edges[:, self._rows]
        self._ranks = None if ranks is None else ranks[:, self._rows]
        self._layers, self._variant = layers, variant
        self.count: Tensor | int = 0  # [B]: visible edges that were cut, over all layers
        self.reached: set[int] = set()  # layers whose attention passed through here
        self.changed = False  # whether the output of any row differs

    @property
    def has_rows(self) -> bool:
        """Whether there is any edge to cut."""
        return len(self._rows) > 0

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        """The layer's attention output without the cut edges, [B, H, T, D]."""
        output = attention(call)
        if call.layer not in self._layers or not self.has_rows:
            return output
        self.reached.add(call.layer)
        rows, edges = self._rows.to(output.device), self._edges.to(output.device)
        size, heads = output.shape[:2]
        step = max(1, _ROW_ELEMENTS // (size * heads * call.keys))
        ranks_of = None if self._ranks is None else self._ranks.to(output.device).split(step, 1)
        chunks = zip(rows.split(step), edges.split(step, 1), strict=True)
        for place, (some, cut) in enumerate(chunks):
            at_rows = some.expand(size, -1)
            # To any head: some layers select other keys for each.
            visible = ~call.hidden_from(at_rows, slice(0, call.keys)).all(1)
            if ranks_of is not None:
                ranks = ranks_of[place] * visible
                cut = as_heavy(attention_rows(call, at_rows), cut & visible, ranks)
            gone = cut & visible  # [B, R, K]
            if self._variant == "mask":
                weights = attention_rows(call, at_rows, cut)
            else:
                weights = attention_rows(call, at_rows).masked_fill(cut[:, None], 0)
            before = output[:, :, some]
            now = mixed_rows(call, weights).to(output.dtype)
            # Rows whose cut keys are hidden anyway must not change by rounding.
            now = torch.where(gone.any(2)[:, None, :, None], now, before)
            self.count = self.count + gone.sum((1, 2)).cpu()  # layers may be on several devices
            self.changed |= not torch.equal(now, before)
            output = output.index_copy(2, some, now)
        return output


def as_heavy(attention: Tensor, edges: Tensor, ranks: Tensor) -> Tensor:
    """Other keys, in the order of their ranks, that hold about as much attention as some.

    The key at which the sum reaches that of ``edges`` is taken if at least half of its attention is
    needed. ``attention``, [B, H, R, K], counts by its mean over heads. ``edges`` and the result are
    [B, R, K]; ``ranks``, of the same shape, count from 1, and are 0 for keys that are not taken.
    """
    mean = attention.mean(1)
    wanted = (mean * edges).sum(-1, keepdim=True)
    last = ranks.max() + 1
    order = torch.where(ranks > 0, ranks, last).argsort(-1)
    sums = (mean * (ranks > 0)).gather(-1, order)
    taken = (sums.cumsum(-1) - sums / 2 <= wanted) & (wanted > 0)
    return torch.zeros_like(edges).scatter(-1, order, taken) & (ranks > 0)


def settings_of(
    classes: Sequence[str], layers: Sequence[str], draws: int, depth: int
) -> list[Setting]:
    """All requested settings, in the order of classes and layers.

    Random edges are drawn in place of each class, except the classes in ``WHOLE_ROWS``, whose rows
    have no other edges to draw.
    """
    bands = [band for name in layers for band in bands_of(name, depth)]
    kinds = [(False, 0), *((True, draw) for draw in range(draws))]
    return [
        Setting(name, control, draw, *band)
        for name in classes
        for control, draw in kinds
        if not (control and name in (*WHOLE_ROWS, AS_HEAVY))
        for band in bands
    ]


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """Queries from the first layer of every cut on; demonstrations too if their edges are cut."""
    settings = settings_of(spec["classes"], spec["layers"], spec["draws"], depth)
    asked = [1 - setting.layer / depth for setting in settings]
    inner = [not setting.edges.endswith(("_target", "_query")) for setting in settings]
    rebuilt = sorted(compress(asked, inner))
    untouched = ceil((1 + len(asked)) / CUTS_AT_ONCE)
    return Cost(
        (1 + sum(rebuilt)) * prompts.demonstrations + (untouched + sum(asked)) * prompts.asked,
        copies=1 + sum(rebuilt[-CUTS_AT_ONCE:]),
    )


def measure_knockout(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    settings: Sequence[Setting],
    variant: str,
    top_tokens: int,
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions under every setting of :func:`settings_of`; see :func:`measure_interventions`.

    The unmodified run is added.
    """
    return measure_interventions(
        model,
        prompts,
        lambda chosen: _Runs(model, chosen, settings, variant),
        KNOCKOUT,
        batch_tokens,
        examples,
        scoring,
        top_tokens,
    )


class CellEdges:
    """Edges by class and draw in the prompts of a cell, which share their demonstrations."""

    def __init__(self, prompts: pl.DataFrame, shared: int) -> None:
        self._prompts = {row["example"]: row for row in prompts.iter_rows(named=True)}
        self._shared = shared
        self._first = next(iter(self._prompts.values()))
        self._known: dict[tuple[str, int | None, int | None], Edges] = {}

    def of_prefix(self, name: str, draw: int | None) -> Edges:
        """Edges among the shared tokens, [P, P]; with a draw, the random ones instead."""
        return self._drawn(name, draw, None)

    def of_query(self, name: str, draw: int | None, example: int) -> Edges:
        """Edges from the T - P tokens after the shared ones, [T - P, T]."""
        return self._drawn(name, draw, example)

    def _drawn(self, name: str, draw: int | None, example: int | None) -> Edges:
        key = (name, draw, example)
        if key not in self._known:
            prompt = self._first if example is None else self._prompts[example]
            of_class = "label_to_target" if name == AS_HEAVY else name
            whole, shared = edges_of(prompt, of_class), self._shared
            edges = whole[:shared, :shared] if example is None else whole[shared:]
            if draw is not None:
                purpose: list[str | int] = [task_of(prompt["task"]), "knockout", name, draw]
                if example is not None:
                    purpose.append(example)
                edges = matched_edges(edges, generator(prompt["seed"], *purpose))
            self._known[key] = edges
        return self._known[key]

    def in_queries(self, name: str, draw: int | None) -> bool:
        """Whether any prompt has such edges from the tokens after the shared ones."""
        return any(self.of_query(name, draw, example).any() for example in self._prompts)

    def anywhere(self, name: str, draw: int | None) -> bool:
        """Whether any prompt has such edges."""
        return bool(self.of_prefix(name, draw).any()) or self.in_queries(name, draw)

    def of_batch(self, name: str, draw: int | None, batch: Batch) -> Tensor:
        """Edges from the query rows of a batch, [B, T, P + T], bool."""
        return _padded(batch, [self.of_query(name, draw, example) for example in batch.examples])

    def ranks_of_batch(self, name: str, batch: Batch) -> Tensor | None:
        """Random ranks of the keys that take the place of edges, [B, T, P + T]; mostly None."""
        if name != AS_HEAVY:
            return None
        ranks = []
        for example in batch.examples:
            prompt, edges = self._prompts[example], self.of_query(name, None, example)
            random = generator(prompt["seed"], task_of(prompt["task"]), "knockout", name, example)
            ranks.append(random_ranks(edges, random))
        return _padded(batch, ranks)

    def of_whole(self, name: str, draw: int | None, batch: Batch) -> Tensor:
        """Edges of whole prompts, [B, T, T], bool."""
        size, tokens = batch.input_ids.shape
        edges = torch.zeros(size, tokens, tokens, dtype=torch.bool)
        edges[:, : self._shared, : self._shared] = torch.from_numpy(self.of_prefix(name, draw))
        for row, example in enumerate(batch.examples):
            of_query = torch.from_numpy(self.of_query(name, draw, example))
            end = self._shared + of_query.shape[0]
            edges[row, self._shared : end, : of_query.shape[1]] = of_query
        return edges


def _padded(batch: Batch, of_queries: Sequence[NDArray[Any]]) -> Tensor:
    """What each prompt has from its query rows to all keys, in one tensor [B, T, P + T]."""
    size, tokens = batch.input_ids.shape
    rows = [torch.from_numpy(of_query) for of_query in of_queries]
    padded = torch.zeros(size, tokens, batch.prefix_tokens + tokens, dtype=rows[0].dtype)
    for row, of_query in enumerate(rows):
        padded[row, : of_query.shape[0], : of_query.shape[1]] = of_query
    return padded


def _draw_of(setting: Setting) -> int | None:
    return setting.draw if setting.control else None


class _Runs(Interventions[Setting]):
    """The runs of all settings; what a cut leaves unchanged is computed only once.

    A cut in layer l changes its rows from the output of layer l on, hence the keys and values of
    the prefix from layer l + 1 on. Queries are therefore resumed after layer l, or at layer l if
    the cut is in their own rows.
    """

    unmodified = (UNTOUCHED,)

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: pl.DataFrame,
        settings: Sequence[Setting],
        variant: str,
    ) -> None:
        self._places = attention_layers(model.config)
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
        """The settings that have edges in any prompt; warn of the others."""
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
                    CLASSES.get(name, name),
                    self._task,
                )
        return [s for s in settings if (s.edges, s.control) not in lacking]

    def intervened(self, setting: Setting) -> Callable[[Batch], IntervenedRun]:
        """The demonstrations with their edges cut, if any, and the queries with theirs."""
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
        # A cut row differs within the layer itself; keys and values of the prefix, from the next.
        start = setting.layer + (not self._edges.in_queries(setting.edges, draw))

        def of_batch(batch: Batch) -> IntervenedRun:
            of_query = self._edges.of_batch(setting.edges, draw, batch)
            ranks = self._edges.ranks_of_batch(setting.edges, batch)
            on_words = partial(self._cut_as_target, of_query, ranks, setting, batch)
            cut = Cut(of_query, setting.cut_layers, self._variant, ranks)
            return IntervenedRun(prefix, start, (cut,), on_words)

        return of_batch

    def columns(self, batch: Batch, ran: BatchRun[Setting], plain: Answers) -> Mapping[str, Any]:
        """Number of edges cut in each prompt, and the loss over the label words' first tokens."""
        counts = torch.zeros(batch.size, dtype=torch.long)
        if ran.run is not None:
            (cut,) = ran.run.interventions
            assert isinstance(cut, Cut)
            counts = counts + cut.count + self._counts.get(ran.setting, 0)
            self._note(ran.setting, cut)
        first = torch.tensor(token_groups(batch.label_tokens.tolist()))[batch.labels.cpu()]
        loss = cross_entropy(ran.answers.label_logits.double().cpu(), first, reduction="none")
        return {"cut": pl.Series(counts.tolist()), "loss": pl.Series(loss.tolist())}

    def _note(self, setting: Setting, cut: Cut) -> None:
        """Record whether cutting visible edges has changed any attention output."""
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
        for setting, changed in self._changed.items():
            if not changed:
                raise InputError(
                    f"knockout.classes: cutting {setting.edges} from layer "
                    f"{self._places[setting.layer]} on left the attention of model {self._name} "
                    f"unchanged in task {self._task}, although its prompts have such edges; leave "
                    'the class out, or set "dtype: float32" for the model.'
                )

    def _cut_as_target(
        self, edges: Tensor, ranks: Tensor | None, setting: Setting, batch: Batch, rows: int
    ) -> tuple[Cut]:
        """The target's cut, applied to the ``rows`` tokens of a label word that follow it.

        These tokens predict the rest of the word and must not see more than the target does. With
        ranks, each cuts keys that hold as much of its own attention.
        """
        at = batch.target_rows.cpu()[:, None, None].expand(-1, rows, edges.shape[2])

        def at_words(of_target: Tensor) -> Tensor:
            uncut = torch.zeros(batch.size, rows, rows, dtype=of_target.dtype)
            return torch.cat([of_target.gather(1, at), uncut], 2)

        given = None if ranks is None else at_words(ranks)
        return (Cut(at_words(edges), setting.cut_layers, self._variant, given),)


def measure(cell: Cell) -> None:
    spec = cell.spec
    settings = settings_of(spec["classes"], spec["layers"], spec["draws"], cell.depth)
    how = {"settings": settings, "variant": spec["variant"], "top_tokens": spec["top_tokens"]}
    cell.measure(KNOCKOUT, cost, partial(measure_knockout, **how))
