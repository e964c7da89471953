"""Predictions from compressed demonstrations: only some of their keys and values are left.

[A] §3.2 keeps those of formatting and label words. All other methods of ``kept_positions.py`` are
the same call with other positions. Beside them the anchors as text (``text_anchor``), and attention
to the label words re-weighted by β, with everything kept and with the anchors alone.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import polars as pl
import torch
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.attention import TOP_TOKENS
from anchorflow.attention_function import Attention, AttentionCall, attention_rows, intervene
from anchorflow.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.descent import Reweight, fit_reweighting
from anchorflow.errors import InputError
from anchorflow.kept_positions import AT_ANY_BUDGET, METHODS, Demonstrations
from anchorflow.language_model import check_finite
from anchorflow.last_tokens import LastTokens, keep_all_but_last, keep_together
from anchorflow.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.tables import COMPRESSION, frame_schema, keyed

log = logging.getLogger(__name__)

OBSERVED = 32  # last tokens of the prefix whose attention methods may look at


class Setting(NamedTuple):
    """One way to compress: to a ``share`` of the prefix, or to the anchors' number of tokens."""

    method: str
    share: float | None = None
    draw: int = 0


FULL, ANCHOR = Setting("full"), Setting("hidden_anchor")
# What re-weighting is called, by the cache under it.
REWEIGHTED = {FULL: Setting("reweighted"), ANCHOR: Setting("reweighted_anchor")}


class Cache(NamedTuple):
    """What queries attend to in place of the demonstrations."""

    prefix: Prefix
    first_position: int  # where queries begin, as the model is told

    @property
    def kept(self) -> int:
        """How many tokens are left, in every layer and head."""
        return self.prefix.layers[0].tokens


class _Observe:
    """The intervention that keeps attention from the last tokens to all that precedes them."""

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self.rows: dict[int, Tensor] = {}

    def attend(self, call: AttentionCall, attention: Attention) -> Tensor:
        tokens = call.query.shape[2]
        rows = torch.arange(max(0, tokens - self._tokens), tokens, device=call.query.device)
        self.rows[call.layer] = attention_rows(call, rows[None])[0]  # [H, W, P]
        return attention(call)


def observe(
    model: PreTrainedModel, token_ids: Sequence[int], prompt: Mapping[str, Any]
) -> Demonstrations:
    """Run the demonstrations once and keep what methods may look at.

    Parameters
    ----------
    token_ids : sequence of int
        The tokens that all prompts share.
    prompt : mapping
        One of the prompts, a row of ``tables.PROMPTS``.
    """
    observed = _Observe(OBSERVED)
    prefix = compute_prefix(model, token_ids, observed)
    return Demonstrations(prompt, prefix, observed.rows)


def compress(
    model: PreTrainedModel, shown: Demonstrations, setting: Setting, positions: str = "original"
) -> Cache:
    """The cache that one way to compress leaves.

    Parameters
    ----------
    positions : str
        ``original``: queries begin behind the whole prefix, as in full prompts; ``zero``: they
        begin at position 0, as in the authors' code for GPT2-XL. Anchors as text are followed by
        the query, as any text.

    Raises
    ------
    InputError
        If the method leaves no token.
    """
    if setting.method == "text_anchor":
        return _as_text(model, shown)
    if setting == FULL:
        return Cache(shown.prefix, shown.prefix.tokens)
    budget = len(shown.anchors())
    if setting.share is not None:
        budget = max(1, int(setting.share * shown.prefix.tokens + 1e-9))
    kept = METHODS[setting.method](shown, budget, setting.draw)
    if min(positions.shape[1] for positions in kept.values()) == 0:
        raise InputError(
            f"{setting.method} leaves nothing of the demonstrations of {shown.prompt['task']}; "
            "leave this method out."
        )
    return Cache(shown.prefix.keep(kept), shown.prefix.tokens if positions == "original" else 0)


def _as_text(model: PreTrainedModel, shown: Demonstrations) -> Cache:
    """The anchors' tokens as a text of their own, which ends where the query begins."""
    tokens = shown.prefix.tokens
    text = compute_prefix(model, [shown.prompt["token_ids"][p] for p in shown.anchors()])
    positions = torch.arange(tokens - text.tokens, tokens)[None]
    layers = {
        number: replace(layer, positions=positions.to(layer.key.device))
        for number, layer in text.layers.items()
    }
    return Cache(Prefix(tokens, layers), text.tokens)


def settings_of(methods: Sequence[str], shares: Sequence[float], draws: int) -> list[Setting]:
    """Every way to compress that is asked for, everything kept first."""
    at_anchors = [
        Setting(method, draw=draw)
        for method in methods
        for draw in range(draws if method == "hidden_random" else 1)
    ]
    swept = [
        Setting(method, share) for share in shares for method in methods if method in AT_ANY_BUDGET
    ]
    return [FULL, *at_anchors, *swept]


def measure_compression(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    beta: Tensor,
    spec: Mapping[str, Any],
    reweighting: Mapping[str, Any],
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """Predictions of every runnable test text from every compressed cache.

    Parameters
    ----------
    prompts : DataFrame
        ``tables.PROMPTS`` of one model, task and seed: test texts with fixed demonstrations, and
        the training texts that β is fitted to.
    beta : [L, H, N]
        β fitted with everything kept; with the anchors alone, it is fitted here.
    spec, reweighting : mapping
        ``compression`` and ``reweighting`` of the configuration.
    batch_tokens : int
        Upper bound of query tokens per batch; does not change the numbers.
    examples : collection of int, optional
        Predict these test texts only; does not change their numbers.

    Returns
    -------
    DataFrame
        Columns of ``tables.COMPRESSION``.

    Raises
    ------
    InputError
        If a method leaves no token, or logits or losses are not finite.
    """
    test, training = runnable(prompts, "fixed"), runnable(prompts, "training")
    measured = among(test, examples)
    parts = [pl.DataFrame(schema=frame_schema(COMPRESSION))]
    if measured.is_empty():
        return parts[0]
    keys = test.select("model", "task", "seed").row(0, named=True)
    token_ids = shared_token_ids(pl.concat([test, training]))
    shown = observe(model, token_ids, test.row(0, named=True))
    settings = settings_of(spec["methods"], spec["shares"], spec["draws"])
    budget = Budget(batch_tokens)
    with tqdm(total=len(settings), desc="compression", unit="cache", mininterval=1) as progress:
        for setting in settings:
            cache = compress(model, shown, setting, spec["positions"])
            betas = {FULL: beta} if setting == FULL else {}
            if setting == ANCHOR:
                learned = keep_together(model, training, cache.prefix, budget, cache.first_position)
                fit = fit_reweighting(model, learned, reweighting, keys["seed"], keys["task"])
                log.info(
                    "Anchors alone: learning rate %g, last loss %.3g.",
                    fit.descent.learning_rate,
                    fit.steps[-1].loss,
                )
                betas = {ANCHOR: fit.beta}
            constants = {**keys, "kept": cache.kept, "shared": len(token_ids)}
            measure = partial(_predictions, model, cache, setting, betas.get(setting))
            for _, rows in run_batches(
                measured, budget, model.device, measure, cache.prefix.tokens, cache.first_position
            ):
                parts.append(keyed(rows, constants, COMPRESSION))
            progress.update()
    return pl.concat(parts).sort("example", "method", "share", "draw", nulls_last=False)


def _predictions(
    model: PreTrainedModel, cache: Cache, setting: Setting, beta: Tensor | None, batch: Batch
) -> pl.DataFrame:
    """Predictions of one batch from one cache, without β and, if there is one, with it."""
    tokens = keep_all_but_last(model, batch, cache.prefix)
    parts = []
    for way, logits in _logits(model, tokens, setting, beta):
        check_finite(logits, tokens.examples, way in REWEIGHTED.values())
        names = {name: pl.lit(value) for name, value in way._asdict().items()}
        parts.append(_rows(tokens, logits).with_columns(**names))
    return pl.concat(parts)


@torch.no_grad()
def _logits(
    model: PreTrainedModel, tokens: LastTokens, setting: Setting, beta: Tensor | None
) -> Iterator[tuple[Setting, Tensor]]:
    """Next-token logits [B, vocabulary], without β and, if there is one, with it."""
    with intervene(tokens):
        yield setting, tokens.vocabulary_logits(model)
    if beta is not None:
        with intervene(tokens, Reweight.last(beta, tokens)):
            yield REWEIGHTED[setting], tokens.vocabulary_logits(model)


def _rows(tokens: LastTokens, logits: Tensor) -> pl.DataFrame:
    probabilities = logits[:, tokens.label_tokens.to(logits.device)].softmax(-1).cpu()
    return pl.DataFrame(
        {
            "example": tokens.examples,
            "label": tokens.labels.tolist(),
            "prediction": probabilities.argmax(-1).tolist(),
            "probabilities": probabilities.tolist(),
            "top_tokens": logits.topk(TOP_TOKENS).indices.tolist(),
        }
    )
