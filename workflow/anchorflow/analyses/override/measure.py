"""Answers with deranged label words, in several ways, and without demonstrations.

The same test texts, demonstrations, and training texts as with the task's own label words, of which
every class has that of another one.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl
from transformers import PreTrainedModel

from anchorflow.analyses.compression import measure as compression
from anchorflow.analyses.compression.measure import ANCHOR, FIRST_ONLY, FULL, REWEIGHTED
from anchorflow.analyses.override import OVERRIDE
from anchorflow.analyses.reweighting.measure import caches_of_training, require_training
from anchorflow.analyses.reweighting.samples import draw_auxiliary
from anchorflow.model.batches import Budget, among, runnable
from anchorflow.model.beta_fit import fit_reweighting
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import FIRST_TOKEN, Words, leave_room
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS


def deranged(labels: Sequence[str], task: str, seed: int) -> list[str]:
    """The label words such that every class has that of another one, by a draw per task and seed.

    The classes pass their words on in a random circle.
    """
    circle = generator(seed, task, "deranged label words").permutation(len(labels)).tolist()
    word_of = dict(zip(circle, circle[1:] + circle[:1], strict=True))
    return [labels[word_of[label]] for label in range(len(labels))]


def _caches(ways: Collection[str]) -> list[compression.Setting]:
    """The caches on which β is fitted."""
    return [cache for cache, way in REWEIGHTED.items() if way.method in ways]


def _compressed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of compression with which these ways of answering are measured."""
    anchors = {ANCHOR.method, REWEIGHTED[ANCHOR].method} & {*spec["ways"]}
    methods = [ANCHOR.method] if anchors else []
    return {"methods": methods, "shares": [], "draws": 1, "positions": spec.get("positions")}


def cost(prompts: Prompts, spec: Mapping[str, Any], depth: int) -> Cost:
    """The queries after every cache, and the steps of all fits."""
    asked = compression.cost(prompts, _compressed(spec), depth).forward
    fits = len(_caches(spec["ways"]))
    if not fits:
        return Cost(asked)
    fit = spec["fit"]
    training, rates = prompts.labels * fit["examples_per_label"], fit["learning_rates"]
    runs = fits * (len({*rates}) + len(rates) * (len(rates) > 1))
    fitted = runs * fit["epochs"] * training * (1 + prompts.further)
    asked += prompts.demonstrations + fits * training * prompts.query
    return Cost(asked + fitted, fitted)


def measure_override(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    labels: Sequence[str],
    spec: Mapping[str, Any],
    batch_tokens: int,
    examples: Collection[int] | None = None,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions in every way, and without demonstrations (``first_only``).

    ``prompts``, of the test texts and, if β is fitted, of the training texts, have the ``labels``.
    """
    betas, fitted_on = {}, _caches(spec["ways"])
    words = Words.scored(prompts, scoring)
    test = runnable(leave_room(prompts, words), "fixed")
    if fitted_on and not test.is_empty():
        room = leave_room(prompts, words)
        require_training(room, labels)
        training, budget = runnable(room, "training"), Budget(batch_tokens)
        prefix = compute_prefix(model, shared_token_ids(pl.concat([test, training])))
        anchors = spec["positions"] if ANCHOR in fitted_on else None
        caches = caches_of_training(model, test, training, prefix, budget, anchors)
        of = dict(zip((FULL, ANCHOR), caches, strict=False))
        known = {cache: of[cache] for cache in fitted_on if cache in of}
        task, seed = test.select("task", "seed").row(0)
        if known:  # nothing, where only text can be compressed
            fits = fit_reweighting(model, [*known.values()], spec["fit"], seed, task, words)
            betas = {cache: fit.beta for cache, fit in zip(known, fits, strict=True)}
    rows = compression.measure_compression(
        model, prompts, betas, _compressed(spec), batch_tokens, examples, scoring
    )
    asked = [FIRST_ONLY.method, *spec["ways"]]
    return rows.filter(pl.col("method").is_in(asked)).select(*frame_schema(OVERRIDE))


def measure(cell: Cell) -> None:
    spec, samples, tested = cell.spec, cell.read("samples", SAMPLES), cell.read("prompts", PROMPTS)
    task, seed = samples.select("task", "seed").row(0)
    labels = deranged(cell.task["labels"], task, seed)
    drawn = among(samples.filter(demonstrations="fixed"), cell.examples(tested))
    if _caches(spec["ways"]):
        per_label = spec["fit"]["examples_per_label"]
        training = draw_auxiliary(cell.read("texts", TEXTS), samples, labels, per_label, None, {})
        drawn = pl.concat([drawn, training.filter(demonstrations="training")])
    wording = {**cell.task, "labels": labels}
    prompts = PromptBuilder.open(cell.input.tokenizer, wording, cell.card["name"]).build(drawn)
    model = cell.model(prompts, cost, spec)
    rows = measure_override(model, prompts, labels, spec, cell.batch_tokens, None, cell.scoring)
    cell.write(OVERRIDE, rows, cell.described(override=spec))
