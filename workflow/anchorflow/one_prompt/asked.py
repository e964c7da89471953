"""What can be asked about one prompt: flows, cuts, demonstrations, heads, and exchanged states.

Everything is measured on the whole prompt, exactly: an edge that is cut is hidden before the
softmax, a demonstration that is left out is no longer in the prompt. Answers are compared by their
first tokens.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property, partial
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
import torch
from scipy.stats import spearmanr
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import PreTrainedModel

from anchorflow.analyses.flow.measure import label_loss
from anchorflow.analyses.flow_page import SHOWN_KNOCKOUTS
from anchorflow.analyses.flow_page.measure import (
    cut_flows,
    read_and_written,
    repeated,
    token_texts,
    writing_of,
)
from anchorflow.analyses.flow_page.plot import flow_masks, heads_data, page, page_data
from anchorflow.analyses.flow_page.plot import words_of_groups as answer_words
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, batches_of
from anchorflow.model.layer_kinds import attention_layers, by_place, selects_keys
from anchorflow.model.layers import attending_layers, keep_outputs, positions_from, run_layers
from anchorflow.model.logits import Answers, label_logits, target_logits
from anchorflow.model.run_again import hidden_states
from anchorflow.model.size import available_bytes, gib
from anchorflow.model.tokenizer import token_groups
from anchorflow.one_prompt.edit import Choose, Edit
from anchorflow.one_prompt.prompt import Prompt, Tokens, answer_tokens, positions_named
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.positions import label_word_positions, random_ranks
from anchorflow.prepare.tokenizer import context_of
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS

DRAWS = 20  # random cuts beside one that is asked for
MOST_LIKELY = 5  # tokens that are the answers of a prompt without any
_COPIES = 3  # of attention matrices: weights, gradients, and their product or a masked copy
_AT_ONCE = 2**25  # entries of edges [L, B, T, T] in one run
_TOKENS = 1024  # in one batch of prompts without a demonstration, or with another label
TO = ("target", "label_words", "all")
_FROM = dict(zip(TO, ("the target", "label words", "all later tokens"), strict=True))
_NAMED = 6  # tokens and answers in the words for a change
_COLORS = ("#0072b2", "#d55e00", "#777777")


class Changed(NamedTuple):
    """The answer to a prompt, possibly under a change."""

    answer: str
    probabilities: list[float]  # of the answers, which sum to 1
    log_odds: float  # of the label against the other answers, in nats
    label_mass: float  # probability of the answers' first tokens in the whole vocabulary


@dataclass(frozen=True)
class Cut:
    """Edges of attention to cut: to some tokens, from the target or others, in some places."""

    tokens: Tokens
    to: str = "target"
    layers: Collection[int] | None = None
    heads: Collection[int] | None = None


@dataclass(frozen=True)
class FlowPage:
    """An interactive page with the information flow of one prompt; notebooks show it."""

    title: str
    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page to one file, which needs no other, and return its path."""
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        # Sandboxed: the page has no access to the notebook.
        return (
            f'<iframe sandbox="allow-scripts" title="{escape(self.title)}" '
            f'style="width:100%;height:56rem;border:0" srcdoc="{escape(self.html)}"></iframe>'
        )


@dataclass(frozen=True)
class Demonstrations:
    """What each demonstration does for the answer, and how well estimates rank it.

    ``rows`` have one row per demonstration. ``agreement`` has Spearman's rank correlation of each
    estimate with each exact effect; it is null where one of them is the same everywhere.
    """

    rows: pl.DataFrame
    agreement: pl.DataFrame

    def _repr_html_(self) -> str:
        return str(self.rows._repr_html_()) + str(self.agreement._repr_html_())


class AskedPrompt:
    """A prompt of a model, to be asked about.

    ``prompt`` is a row of ``PROMPTS``; ``answers`` are the words of its labels. ``without`` and
    ``relabeled`` give the row without a demonstration, and with another label of one.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        prompt: Mapping[str, Any],
        answers: Sequence[str],
        without: Callable[[int], Mapping[str, Any]],
        relabeled: Callable[[int, int], Mapping[str, Any]],
    ) -> None:
        self.model, self.answers = model, tuple(answers)
        self._tokenizer, self._without, self._relabeled = tokenizer, without, relabeled
        frame = taken_together(_frame(prompt))
        self.prompt: dict[str, Any] = frame.row(0, named=True)
        self.batch: Batch = next(iter(batches_of(frame, 1, model.device)))
        self.tokens: list[str] = token_texts(tokenizer, self.prompt["token_ids"])
        self.places = attention_layers(model.config)
        self._groups = token_groups(self.prompt["label_tokens"])
        self.words = answer_words(self.answers, self._groups)
        if len(set(self._groups)) < 2:
            raise InputError(
                "all answers begin with the same token, so their first tokens can't be compared; "
                "choose others."
            )

    @cached_property
    def plain(self) -> Answers:
        """The model's answers without any change."""
        return self._answers(self.batch)

    @cached_property
    def _in_full(self) -> Answers:
        """The same with whole matrices of attention, which changed runs have too."""
        with intervene(replace(self._edit(None), whole=True)):
            return self._answers(self.batch)

    def label(self, label: int | str | None = None) -> int:
        """The index of a label, given as such or as its word; by default, the model's answer."""
        if label is None:
            return int(self.plain.label_logits[0].argmax())
        if isinstance(label, str):
            words = [answer.strip() for answer in self.answers]
            if label.strip() not in words:
                raise InputError(
                    f"label: {label!r} is none of the answers; choose one of {', '.join(words)}."
                )
            label = words.index(label.strip())
        if not isinstance(label, int | np.integer) or isinstance(label, bool):
            raise InputError(f"label: {label!r} is neither an index nor an answer; give one.")
        if not 0 <= label < len(self.answers):
            raise InputError(f"label: {label} is not between 0 and {len(self.answers) - 1}.")
        return self._groups[label]

    def show(
        self,
        label: int | str | None = None,
        cut: Cut | None = None,
        factor: float = 1.0,
        title: str = "",
    ) -> FlowPage:
        """The page of the prompt's information flow, also under a cut or re-weighted attention."""
        title = title or f"Information flow: {self.prompt['model']}"
        return FlowPage(title, page(title, self.page_data(label, cut, factor)))

    def page_data(
        self,
        label: int | str | None = None,
        cut: Cut | None = None,
        factor: float = 1.0,
        flows_cut: bool = True,
    ) -> dict[str, Any]:
        """The data of :meth:`show`'s page.

        Where nothing is changed, each flow is cut in each layer, unless ``flows_cut`` is false.
        """
        at, edit = self.label(label), self._edit(cut, factor, keeps=True)
        self._check_memory(len(self.places), _COPIES)
        batch = replace(self.batch, labels=torch.full_like(self.batch.labels, at))
        with intervene(edit):
            logits = label_logits(self.model, batch)
            label_loss(logits, batch).backward()
        matrices = np.stack([_saliency(edit.weights[layer]) for layer in sorted(edit.weights)])
        probabilities = logits.detach().softmax(-1)[0].tolist()
        row = {
            **self.prompt,
            **{"label": at, "prediction": int(np.argmax(probabilities))},
            **{"probabilities": probabilities, "texts": self.tokens},
            **{"token_groups": self._groups},
        }
        row["strongest_pq"] = self.places[_strongest(matrices, flow_masks(row))]
        untouched = cut is None and factor == 1
        measured = untouched and flows_cut and row["label_positions"]
        measured = measured and not selects_keys(self.model.config)  # rows could lose all keys
        cuts = cut_flows(self.model, batch, row) if measured else None
        none = pl.DataFrame(schema=frame_schema(SHOWN_KNOCKOUTS))
        data = page_data(
            row,
            matrices,
            self.answers,
            _COLORS,
            none if cuts is None else self._placed(cuts),
            self.places,
        )
        facts = data["facts"]
        data["facts"] = {
            "saliency of": f"the loss of {facts['true label']}",
            "prediction": facts["prediction"],
        }
        data["facts"] |= self._changes_in_words(cut, factor, probabilities)
        data["cut_tokens"] = self._keys(cut) if cut else []
        data["heads"] = None
        if self._heads is not None:
            data["heads"] = heads_data(row, self._heads, self.answers)
        return data

    @cached_property
    def _heads(self) -> pl.DataFrame | None:
        """What heads read and write in the unchanged prompt; None where that is not known."""
        writing = writing_of(self.model)
        return None if writing is None else read_and_written(self.model, writing, self.batch)

    def _changes_in_words(
        self, cut: Cut | None, factor: float, probabilities: Sequence[float]
    ) -> dict[str, str]:
        """What is changed, and the probabilities of the answers before and after, in words."""
        changes = {}
        if cut is not None:
            texts = [f"“{self.tokens[key].strip(' ')}”" for key in self._keys(cut)]
            some = ", ".join(texts[:_NAMED]) + f" and {len(texts) - _NAMED} more" * (
                len(texts) > _NAMED
            )
            changes["cut"] = (
                f"attention from {_FROM[cut.to]} to {some}; {_numbers('layer', cut.layers)}, "
                f"{_numbers('head', cut.heads)}"
            )
        if factor != 1:
            changes["re-weighted"] = f"attention to label words × {factor:.3g}"
        if changes:
            before = self._in_full.label_logits[0].softmax(-1).tolist()
            pairs = list(zip(self.words, before, probabilities, strict=True))
            named = sorted({*self._groups}, key=lambda at: -max(pairs[at][1:]))[:_NAMED]
            changes["probabilities"] = ", ".join(
                "{} {:.2f} → {:.2f}".format(*pairs[at]) for at in sorted(named)
            )
        return changes

    def cut(
        self,
        tokens: Tokens,
        to: str = "target",
        layers: int | Collection[int] | None = None,
        heads: int | Collection[int] | None = None,
        label: int | str | None = None,
        draws: int = DRAWS,
    ) -> pl.DataFrame:
        """Answers with attention to some tokens cut, and to random other tokens in their place.

        The edges run to ``tokens`` (see :func:`positions_named`) from the target, from all tokens
        of label words, or from all later tokens, in all layers and heads unless some are given.
        Random tokens, drawn ``draws`` times, hold as much attention in each row and layer of the
        untouched prompt; its first token is never among them. Rows are ``none``, ``cut``, and
        ``random``; changes are against ``none``. ``attention`` is what the cut edges hold in the
        untouched prompt, a mean over rows, layers, and heads.
        """
        asked = Cut(tokens, to, _several(layers), _several(heads))
        at, edges = self.label(label), self._edges(asked)
        random = generator(self.prompt["seed"], self.prompt["task"], "one_prompt", to)
        if draws < 0:
            raise InputError(f"draws: {draws} should be 0 or more.")
        rows: list[dict[str, Any]] = []
        self._check_memory(1, 3 * _COPIES)
        step, first = max(1, _AT_ONCE // (edges.size * len(self._layers(asked)))), 0
        while first < draws or first == 0:
            count = min(step, draws - first)
            ranks = [random_ranks(edges, random) for _ in range(count)]
            chosen = self._choose(asked, edges, ranks)
            # The first prompt loses nothing: what is compared differs by the cut alone.
            cuts = {
                at: nn.functional.pad(of, (0, 0, 0, 0, 1, 0)) for at, of in chosen.chosen.items()
            }
            with intervene(replace(self._edit(None), cut=cuts, heads=asked.heads)):
                answers = self._answers(repeated(self.batch, 2 + count))
            if not rows:
                nothing = {"cut": "none", "draw": None, "edges": 0, "attention": 0.0}
                rows.append({**nothing, **self._changed(answers, 0, at)._asdict()})
            places = int(edges.any(1).sum()) * len(chosen.chosen)
            assert isinstance(chosen.attention, Tensor) and isinstance(chosen.number, Tensor)
            for row in range(1 if first else 0, 1 + count):
                rows.append(
                    {
                        **{"cut": "random" if row else "cut"},
                        **{"draw": first + row - 1 if row else None},
                        "edges": int(chosen.number[row]),
                        "attention": float(chosen.attention[row]) / places,
                        **self._changed(answers, 1 + row, at)._asdict(),
                    }
                )
            first += max(count, 1)
        return _against_first(rows)

    def _choose(self, cut: Cut, edges: np.ndarray, ranks: Sequence[np.ndarray]) -> Choose:
        """The edges of a cut by layer, and random ones, as the untouched prompt attends."""
        drawn = np.stack(ranks) if ranks else np.zeros((0, *edges.shape), np.int64)
        layers = self._layers(cut)
        chosen = Choose(torch.from_numpy(edges), torch.from_numpy(drawn), layers, cut.heads)
        with intervene(chosen):
            run_layers(self.model, self.batch.input_ids)
        return chosen

    def reweight(
        self, factor: float | Sequence[float], label: int | str | None = None
    ) -> pl.DataFrame:
        """Answers with the target's attention to all label words multiplied by ``factor``.

        The first row, of factor 1, is the answer as it is.

        Source: Wang et al. 2023, eq. 9, with the same weight exp(β) everywhere.
        """
        if not self.prompt["label_positions"]:
            raise InputError("the prompt has no label words to re-weight; give some.")
        factors = [1.0, *(factor if isinstance(factor, list | tuple) else [factor])]
        at, rows = self.label(label), []
        for value in factors:
            with intervene(replace(self._edit(None, value), whole=True)):
                answers = self._answers(self.batch)
            rows.append({"factor": value, **self._changed(answers, 0, at)._asdict()})
        return _against_first(rows)

    def heads(self, label: int | str | None = None) -> pl.DataFrame:
        """What each head reads at the target, and what it writes for the label.

        Columns: ``layer``, ``head``, the target's attention to ``label_words`` and to the ``first``
        token, and the direct effect of the head's output on the label's logit minus the mean of the
        other answers', ``writes``, of which ``from_label_words`` is the part that it reads there,
        in logits.
        """
        if self._heads is None:
            raise InputError(
                "heads: where this architecture's heads write is not known; ask for show or cut."
            )
        at = sorted(set(self._groups)).index(self.label(label))
        of_words = pl.col("token").is_in(label_word_positions(self.prompt))
        return (
            self._placed(self._heads)
            .with_columns(pl.col("writes").list.get(at))
            .group_by("layer", "head", maintain_order=True)
            .agg(
                label_words=pl.col("attention").filter(of_words).sum(),
                first=pl.col("attention").filter(pl.col("token") == 0).sum(),
                writes=pl.col("writes").sum(),
                from_label_words=pl.col("writes").filter(of_words).sum(),
            )
        )

    def demonstrations(self, label: int | str | None = None) -> Demonstrations:
        """What each demonstration does for the label's log odds, exactly and as estimated.

        Exact changes, in nats: ``left_out`` of the prompt; ``hidden`` from the target, in all
        layers; ``flipped``, the mean over other labels in its place. Estimates: ``saliency``,
        Σ_l I_l(q, j) over its tokens j, in nats; ``kernel_weight``, the target's attention to its
        tokens, a mean over layers and heads, as a share of all demonstrations' ([K] §5.2).
        """
        at, count = self.label(label), len(self.prompt["demonstration_starts"])
        if count == 0:
            raise InputError("the prompt has no demonstrations; give its label words.")
        before = self._changed(self.plain, 0, at).log_odds
        edit = self._edit(None, 1, keeps=True)
        self._check_memory(len(self.places), _COPIES)
        batch = replace(self.batch, labels=torch.full_like(self.batch.labels, at))
        with intervene(edit):
            label_loss(label_logits(self.model, batch), batch).backward()
        target = self.prompt["target_position"]
        saliency = sum(_saliency(weights)[target] for weights in edit.weights.values())
        attention = torch.stack(
            [weights.detach()[0, :, target].mean(0) for weights in edit.weights.values()]
        ).mean(0)
        starts, ends = (self.prompt[f"demonstration_{at}"] for at in ("starts", "ends"))
        hidden = self._hidden(list(zip(starts, ends, strict=True)), at)
        given, classes = self.prompt["demonstration_labels"], sorted(set(self._groups))
        flips = [
            (number, other)
            for number, label in enumerate(given)
            for other in classes
            if label >= 0 and other != label
        ]
        flipped: dict[int, list[float]] = {number: [] for number in range(count)}
        changed = self._log_odds_of([self._relabeled(*flip) for flip in flips], at)
        for (number, _), found in zip(flips, changed, strict=True):
            flipped[number].append(found - before)
        shorter = [self._without(number) for number in range(count)] if count > 1 else []
        left_out = self._log_odds_of(shorter, at)
        rows = [
            {
                "demonstration": number,
                "text": "".join(self.tokens[first:end]).strip(),
                "left_out": left_out[number] - before if left_out else None,
                "hidden": hidden[number],
                "flipped": float(np.mean(flipped[number])) if flipped[number] else None,
                "saliency": float(np.sum(saliency[first:end])),
                # Without the prompt's first token, as in [K].
                "kernel_weight": float(attention[max(first, 1) : end].sum()),
            }
            for number, (first, end) in enumerate(zip(starts, ends, strict=True))
        ]
        table = pl.DataFrame(rows, infer_schema_length=None)
        weight = pl.col("kernel_weight")
        table = table.with_columns(weight / weight.sum())
        return Demonstrations(table, _agreement(table))

    def _hidden(self, spans: Sequence[tuple[int, int]], label: int) -> list[float]:
        """Change of the label's log odds with each span of tokens hidden from the target."""
        tokens, target = self.prompt["tokens"], self.prompt["target_position"]
        step, found = max(1, _AT_ONCE // (tokens**2 * len(self.places))), list[float]()
        for first in range(0, len(spans), step):
            some = spans[first : first + step]
            edges = torch.zeros(1 + len(some), tokens, tokens, dtype=torch.bool)
            for row, span in enumerate(some, 1):  # the first prompt loses nothing
                edges[row, target, slice(*span)] = True
            with intervene(Edit(dict.fromkeys(range(len(self.places)), edges))):
                answers = self._answers(repeated(self.batch, len(edges)))
            odds = [self._changed(answers, row, label).log_odds for row in range(len(edges))]
            found += [value - odds[0] for value in odds[1:]]
        return found

    def transplant(
        self, donor: "AskedPrompt", at: str = "target", label: int | str | None = None
    ) -> pl.DataFrame:
        """Answers with the residual stream of another prompt put in after each single layer.

        ``at`` is ``target``, or ``label_words``, of which both prompts then have as many tokens.
        The first rows are the prompt's own answer and the donor's; ``recovered`` is the share of
        the difference of their log odds that a transplant brings.
        """
        places = [self._exchanged(prompt, at) for prompt in (self, donor)]
        if len(places[0]) != len(places[1]):
            raise InputError(
                f"transplant: the prompt has {len(places[0])} tokens of label words, the donor "
                f'{len(places[1])}; choose other label words, or at="target".'
            )
        if donor.prompt["label_tokens"] != self.prompt["label_tokens"]:
            raise InputError("transplant: the two prompts have other answers; give the same.")
        wanted, layers = self.label(label), attending_layers(self.model)
        with keep_outputs(self.model, range(len(layers))) as kept:
            donors = donor._answers(donor.batch)

        def put(row: int, _: nn.Module, __: Any, output: Any) -> Any:
            (state, rest), (source, _none) = map(hidden_states, (output, kept[row].output))
            state = state.clone()
            # The first prompt keeps its own.
            before: tuple[Any, ...] = (slice(None),) * kept[row].batch
            state[(*before, row + 1, places[0])] = source[(*before, 0, places[1])].to(state)
            return state if rest is None else (state, *rest)

        with ExitStack() as hooks:
            for row, layer in enumerate(layers):
                hooks.enter_context(layer.register_forward_hook(partial(put, row)))
            answers = self._answers(repeated(self.batch, 1 + len(layers)))
        rows = [
            {"of": "none", "layer": None, **self._changed(answers, 0, wanted)._asdict()},
            {"of": "donor", "layer": None, **self._changed(donors, 0, wanted)._asdict()},
            *(
                {
                    "of": "layer",
                    "layer": self.places[row],
                    **self._changed(answers, 1 + row, wanted)._asdict(),
                }
                for row in range(len(layers))
            ),
        ]
        table = _against_first(rows)
        gap = rows[1]["log_odds"] - rows[0]["log_odds"]
        share = pl.col("log_odds_change") / gap if gap else pl.lit(None, pl.Float64)
        return table.with_columns(share.alias("recovered"))

    def _exchanged(self, prompt: "AskedPrompt", at: str) -> list[int]:
        if at not in ("target", "label_words"):
            raise InputError(f"at: {at!r} is neither target nor label_words; correct it.")
        if at == "target":
            return [prompt.prompt["target_position"]]
        return label_word_positions(prompt.prompt)

    def _keys(self, cut: Cut) -> list[int]:
        """The tokens to which attention is cut."""
        return positions_named(self.prompt, self.tokens, cut.tokens)

    def _edges(self, cut: Cut) -> np.ndarray:
        """The edges of a cut, [T, T], true from row to key."""
        if cut.to not in TO:
            raise InputError(f"to: {cut.to!r} is none of {', '.join(TO)}; choose one of them.")
        count, target = self.prompt["tokens"], self.prompt["target_position"]
        rows = {"target": [target], "all": list(range(count))}.get(cut.to)
        if rows is None:
            rows = label_word_positions(self.prompt)
        edges = np.zeros((count, count), bool)
        edges[np.ix_(rows, self._keys(cut))] = True
        edges &= np.tri(count, k=-1, dtype=bool)
        if not edges.any():
            raise InputError(f"tokens: none of them precedes what to={cut.to!r} means.")
        return edges

    def _check_memory(self, layers: int, copies: int) -> None:
        """Raise InputError if attention matrices [H, T, T] of so many layers do not fit."""
        heads = self.model.config.get_text_config().num_attention_heads
        needed = 4 * layers * copies * heads * self.prompt["tokens"] ** 2
        free = available_bytes(self.model.device)
        if needed > free:
            raise InputError(
                f"the prompt has {self.prompt['tokens']} tokens, whose attention matrices take "
                f"{gib(needed)}, but {gib(free)} are available; give fewer or shorter "
                "demonstrations."
            )

    def _layers(self, cut: Cut) -> list[int]:
        """The attention layers of a cut, counted densely; raises InputError for others, or heads.

        In :class:`Cut`, layers are counted as in tables, by their place in the model.
        """
        text = self.model.config.get_text_config()
        known = {"layers": self.places, "heads": range(text.num_attention_heads)}
        for name, among in known.items():
            if getattr(cut, name) is not None and not getattr(cut, name):
                raise InputError(f"{name}: there are none; name some, or leave it out for all.")
            if beyond := [n for n in getattr(cut, name) or () if n not in among]:
                some = f"between 0 and {among[-1]}"
                if len(among) <= among[-1]:  # of a hybrid model
                    some = f"a layer that attends ({', '.join(map(str, among))})"
                raise InputError(f"{name}: {beyond[0]} is not {some}; correct it.")
        wanted = self.places if cut.layers is None else cut.layers
        return [self.places.index(layer) for layer in wanted]

    def _placed(self, table: pl.DataFrame) -> pl.DataFrame:
        depth = self.model.config.get_text_config().num_hidden_layers
        return by_place(table, self.places, depth)

    def _edit(self, cut: Cut | None, factor: float = 1, keeps: bool = False) -> Edit:
        if not isinstance(factor, int | float) or not (0 <= factor < np.inf):
            raise InputError(f"factor: {factor!r} should be a number, 0 or more.")
        words = tuple(label_word_positions(self.prompt))
        edit = Edit({}, None, factor, self.prompt["target_position"], words, keeps)
        if cut is None:
            return edit
        edges = torch.from_numpy(self._edges(cut))[None]
        return replace(edit, cut=dict.fromkeys(self._layers(cut), edges), heads=cut.heads)

    def _answers(self, batch: Batch) -> Answers:
        logits = target_logits(self.model, batch)
        return Answers.of(logits, batch.label_tokens, 1)

    def _changed(self, answers: Answers, row: int, label: int) -> Changed:
        logits = answers.label_logits[row].double().cpu()
        others = [g for g in sorted(set(self._groups)) if g != label]
        return Changed(
            self.words[int(logits.argmax())],
            logits.softmax(-1).tolist(),
            float(logits[label] - logits[others].logsumexp(-1)),
            float(answers.label_mass[row]),
        )

    def _log_odds_of(self, prompts: Sequence[Mapping[str, Any]], label: int) -> list[float]:
        """The label's log odds in other prompts with one number of demonstrations, in order."""
        if not prompts:
            return []
        numbered = [{**prompt, "example": number} for number, prompt in enumerate(prompts)]
        found: dict[int, float] = {}
        for batch in batches_of(taken_together(_frame(*numbered)), _TOKENS, self.model.device):
            answers = self._answers(batch)
            for row, number in enumerate(batch.examples):
                found[number] = self._changed(answers, row, label).log_odds
        return [found[number] for number in range(len(prompts))]


def _frame(*prompts: Mapping[str, Any]) -> pl.DataFrame:
    schema = frame_schema(PROMPTS)
    return pl.DataFrame([{name: of[name] for name in schema} for of in prompts], schema=schema)


def _saliency(weights: Tensor) -> np.ndarray:
    """I_l of one layer, [T, T], zero on and above the diagonal.

    Source: Wang et al. 2023, eq. 1.
    """
    assert weights.grad is not None
    found = (weights.detach() * weights.grad)[0].sum(0).abs().tril(-1)
    return np.asarray(found.float().cpu().numpy())


def _strongest(matrices: np.ndarray, masks: np.ndarray) -> int:
    """The layer of the largest S_pq, or of the largest flow at all if S_pq is 0 everywhere."""
    wanted = masks[1] if matrices[:, masks[1]].any() else masks.any(0)
    return int(np.argmax([matrix[wanted].mean() for matrix in matrices]))


def _several(numbers: int | Collection[int] | None) -> tuple[int, ...] | None:
    if numbers is None:
        return None
    return (numbers,) if isinstance(numbers, int) else tuple(numbers)


def _numbers(name: str, numbers: Collection[int] | None) -> str:
    """Layers or heads in words."""
    if numbers is None:
        return f"all {name}s"
    found = sorted({*numbers})
    if len(found) > 2 and found == list(range(found[0], found[-1] + 1)):
        return f"{name}s {found[0]} to {found[-1]}"
    return f"{name}{'s' * (len(found) > 1)} {', '.join(map(str, found))}"


def _against_first(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """The rows with the changes of log odds and label mass against the first one."""
    table = pl.DataFrame(rows, infer_schema_length=None)
    return table.with_columns(
        (pl.col(name) - rows[0][name]).alias(f"{name}_change")
        for name in ("log_odds", "label_mass")
    )


def _agreement(rows: pl.DataFrame) -> pl.DataFrame:
    """Spearman's correlation of each estimate with the size of each exact change."""
    return pl.DataFrame(list(_correlations(rows)), orient="row", schema=_AGREEMENT)


_AGREEMENT = {"estimate": pl.String, "exact": pl.String, "rank_correlation": pl.Float64}


def _correlations(rows: pl.DataFrame) -> Iterator[tuple[str, str, float | None]]:
    for estimate in ("saliency", "kernel_weight"):
        for exact in ("left_out", "hidden", "flipped"):
            pairs = rows.select(estimate, pl.col(exact).cast(pl.Float64).abs()).drop_nulls()
            varied = min(pairs.n_unique(column) for column in pairs.columns) > 1
            found = spearmanr(*pairs).statistic if varied and len(pairs) > 2 else None
            yield estimate, exact, None if found is None else float(found)


Text = TypeVar("Text")  # of a demonstration


def ask_after(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    answers: Sequence[str],
    demonstrations: Sequence[tuple[Text, int]],
    row: Callable[[Sequence[tuple[Text, int]]], Mapping[str, Any]],
) -> AskedPrompt:
    """The prompt after labeled demonstrations, of which ``row`` makes a row of ``PROMPTS``."""

    def with_instead(number: int, *instead: tuple[Text, int]) -> Mapping[str, Any]:
        return row([*demonstrations[:number], *instead, *demonstrations[number + 1 :]])

    return AskedPrompt(
        model,
        tokenizer,
        row(demonstrations),
        answers,
        without=with_instead,
        relabeled=lambda number, label: with_instead(number, (demonstrations[number][0], label)),
    )


def ask_about(
    model: PreTrainedModel, tokenizer: Tokenizer, prompt: Prompt, name: str, after: int = 0
) -> AskedPrompt:
    """A prompt of one's own, to be asked about, for the model ``name``.

    Without answers, the most likely next tokens are compared. With ``after``, the model first
    generates so many tokens, the most likely ones; they follow the prompt in all that is asked.
    """
    if after < 0:
        raise InputError(f"after: {after} should be 0 or more.")
    if len(prompt.answers) == 1:
        raise InputError("answers: there is only one; give at least two, or none.")
    context = context_of(model.config.get_text_config())
    generated: list[int] = []

    def row(of: Prompt) -> dict[str, Any]:
        located = of.located(tokenizer, name)
        length = located["tokens"] + len(generated)
        if length > context:
            raise InputError(
                f"the prompt has {length} tokens, but the model's context has {context}; shorten "
                "it."
            )
        return {
            **located,
            **{"token_ids": [*located["token_ids"], *generated], "tokens": length},
            **{"target_position": length - 1, "context": context, "label": 0},
        }

    for _ in range(after):
        generated += _most_likely(model, row(prompt), 1)
    tokens = _most_likely(model, row(prompt), MOST_LIKELY)
    answers = token_texts(tokenizer, tokens)
    if prompt.answers:
        if generated:
            raise InputError("answers: they follow the prompt itself; leave them out with after.")
        answers, tokens = (
            list(prompt.answers),
            answer_tokens(tokenizer, prompt.text, prompt.answers),
        )
    scored = {"label_tokens": tokens, "word_tokens": [[token] for token in tokens]}
    return AskedPrompt(
        model,
        tokenizer,
        {**row(prompt), **scored},
        answers,
        without=lambda number: {**row(prompt.without(number)), **scored},
        relabeled=lambda number, label: {**row(prompt.relabeled(number, answers[label])), **scored},
    )


def _most_likely(model: PreTrainedModel, prompt: Mapping[str, Any], count: int) -> list[int]:
    """The most likely tokens after a prompt, best first."""
    ids = torch.tensor([prompt["token_ids"]], device=model.device)
    with torch.no_grad():
        logits = model(input_ids=ids, position_ids=positions_from(ids, 0), use_cache=False).logits
    found: list[int] = logits[0, -1].topk(count).indices.tolist()
    return found
