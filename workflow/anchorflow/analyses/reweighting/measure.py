"""Predictions with re-weighted attention to label words, and those of its baselines.

The methods are those of [A] Table 1 (plain in-context learning, more demonstrations, and
re-weighting) and the ``baselines``.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.compression.methods import Demonstrations, anchors_alone
from anchorflow.analyses.reweighting import (
    DESCENT,
    INPUT_ANSWERS,
    LEARNING_RATES,
    REWEIGHTING,
    ROUTING,
)
from anchorflow.analyses.reweighting.baselines import Observed, baseline, draw_inputs
from anchorflow.analyses.reweighting.samples import draw_auxiliary
from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.model.attention_function import Intervention
from anchorflow.model.batches import Batch, Budget, among, log_skipped, run_batches, runnable
from anchorflow.model.beta_fit import (
    Fit,
    Step,
    Weights,
    answers_under,
    fit_reweighting,
    label_scores,
)
from anchorflow.model.cell import Cell
from anchorflow.model.last_tokens import (
    FIRST_TOKEN,
    LastTokens,
    Words,
    keep_all_but_last,
    keep_together,
    leave_room,
)
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.logits import check_finite
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.routing import Routing, principal_directions
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import RecordRows
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.schemas.beta import BETA
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Reweighted(NamedTuple):
    """The tables that the stage writes."""

    beta: pl.DataFrame  # BETA
    beta_anchor: pl.DataFrame  # BETA, fitted on the anchors alone; no rows if not requested
    descent: pl.DataFrame  # DESCENT
    learning_rates: pl.DataFrame  # LEARNING_RATES
    predictions: pl.DataFrame  # REWEIGHTING
    inputs: pl.DataFrame  # INPUT_ANSWERS
    routing: pl.DataFrame  # ROUTING; no rows if not requested


class _Way(NamedTuple):
    """Predictions in one way, for T texts; a baseline's change label probabilities alone."""

    probabilities: Array  # [T, C]
    label_mass: Array | None = None  # [T]
    in_labels: Array | None = None  # [T], 1 or 0


class _Answered(NamedTuple):
    """The model's answers to a batch of test texts, or to all of them."""

    examples: list[int]
    labels: list[int]
    attention: Array  # [T, A]
    ways: dict[str, _Way]  # vanilla and those with β


SCHEMAS = {
    "beta": BETA,
    "beta_anchor": BETA,
    "descent": DESCENT,
    "learning_rates": LEARNING_RATES,
    "predictions": REWEIGHTING,
    "inputs": INPUT_ANSWERS,
    "routing": ROUTING,
}


def cost(prompts: Prompts, spec: Mapping[str, Any], _: int) -> Cost:
    """All prompts, and the steps of all fits, to all demonstrations and to the anchors alone."""
    training, rates = prompts.labels * spec["examples_per_label"], spec["learning_rates"]
    halves = len(rates) * (len(rates) > 1)  # of the texts, on which rates are compared
    anchored = len({*rates}) + halves if spec["anchors"] else 0
    routed = (len({*rates}) + halves) * bool(spec.get("routing_rank"))
    runs = len({*rates, *spec["further_rates"]}) + halves + anchored + routed
    fitted = runs * spec["epochs"] * training * (1 + prompts.further)
    steps = spec["epochs"] * ceil(training / (spec["batch_size"] or training))
    once = 2 * prompts.once + 3 * training * (prompts.query + prompts.further)  # many, too
    return Cost(once + fitted, fitted, steps=2 * steps)


def measure_reweighting(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    labels: Sequence[str],
    spec: Mapping[str, Any],
    batch_tokens: int,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
    anchors: str | None = None,
) -> Reweighted:
    """Fit β, and predict every runnable test text with and without it.

    ``prompts`` are those of test texts with fixed demonstrations, and of :func:`draw_auxiliary`.
    With ``anchors``, β is also fitted on the anchors alone, for compression with this value of
    ``compression.positions``.
    """
    words = Words.scored(prompts, scoring)
    prompts = leave_room(prompts, words)
    test, training, many = (runnable(prompts, kind) for kind in ("fixed", "training", "many"))
    if test.is_empty():
        return Reweighted(*(pl.DataFrame(schema=frame_schema(s)) for s in SCHEMAS.values()))
    require_training(prompts, labels)
    inputs = {name: _inputs(prompts, name) for name in spec["baselines"]}
    prefix = compute_prefix(model, shared_token_ids(pl.concat([test, training])))
    budget = Budget(batch_tokens)
    caches = caches_of_training(model, test, training, prefix, budget, anchors)
    learned = caches[0]
    fits = _fitted(model, caches, spec, prompts, words)
    routing = _routed(model, learned, spec, prompts, words)
    betas: dict[str, Weights] = {**_betas(fits[0]), **routing}
    total = len(test) + len(many) + (1 + len(betas)) * sum(map(len, inputs.values()))
    with tqdm(total=total, desc="reweighting", unit="example", mininterval=1) as progress:
        answering = _Answering(model, words, budget, progress, betas)
        tested = answering.test_texts(test, prefix)
        of_baselines, answers = answering.baselines(inputs, test, prefix, tested, learned)
        ways = {**tested.ways, **of_baselines}
        texts = tested.examples, tested.labels
        predicted = [_predictions(name, *texts, way) for name, way in ways.items()]
        if not many.is_empty():
            longer = compute_prefix(model, shared_token_ids(many))
            ordered = many.sort("example")
            texts = ordered["example"].to_list(), ordered["label"].to_list()
            predicted.append(_predictions("many", *texts, answering.plain(many, longer)))
    return _tables(fits, routing, spec, prompts, pl.concat(predicted), answers)


def caches_of_training(
    model: PreTrainedModel,
    test: pl.DataFrame,
    training: pl.DataFrame,
    prefix: Prefix,
    budget: Budget,
    anchors: str | None,
) -> list[LastTokens]:
    """The training texts after all demonstrations and, if requested, after the anchors alone.

    ``anchors`` is None or a value of ``compression.positions``.
    """
    caches = [keep_together(model, training, prefix, budget)]
    if anchors is not None and not runs_again(model.config):  # else, nothing is compressed
        left = anchors_alone(Demonstrations(test.row(0, named=True), prefix, {}))
        begin = prefix.tokens if anchors == "original" else 0
        caches.append(keep_together(model, training, left, budget, begin).on(prefix))
    return caches


def _fitted(
    model: PreTrainedModel,
    caches: Sequence[LastTokens],
    spec: Mapping[str, Any],
    prompts: pl.DataFrame,
    words: Words | None,
) -> list[Fit]:
    """The fit on each cache: on the whole prefix, and on the anchors alone if requested."""
    task, seed = prompts.select("task", "seed").row(0)
    fits = fit_reweighting(model, caches, spec, seed, task, words, spec["further_rates"])
    for where, fit in zip(("", "On the anchors alone: "), fits, strict=False):
        rate, loss = fit.descent.learning_rate, fit.steps[-1].loss
        log.info("%sLearning rate %g, final loss %.3g.", where, rate, loss)
    return fits


def _routed(
    model: PreTrainedModel,
    learned: LastTokens,
    spec: Mapping[str, Any],
    prompts: pl.DataFrame,
    words: Words | None,
) -> dict[str, Routing]:
    """The routing that is fitted to the same texts as β, by method; none if not requested."""
    rank = spec.get("routing_rank", 0)
    if not rank:
        return {}
    directions = principal_directions(model, learned, rank)
    task, seed = prompts.select("task", "seed").row(0)
    (fit,) = fit_reweighting(model, [learned], spec, seed, task, words, directions=directions)
    log.info("Routing: final loss %.3g.", fit.steps[-1].loss)
    return {"routed": Routing(fit.beta, directions)}


def _betas(fit: Fit) -> dict[str, torch.Tensor]:
    """β by method."""
    further = {f"reweighted_{rate:.12g}": other.beta for rate, other in fit.further.items()}
    return {"reweighted": fit.beta, **further}


@dataclass(frozen=True)
class _Answering:
    """Predictions in every way, with what these have in common."""

    model: PreTrainedModel
    words: Words | None
    budget: Budget
    progress: "tqdm[Any]"
    betas: Mapping[str, Weights]  # by method

    def test_texts(self, test: pl.DataFrame, prefix: Prefix) -> _Answered:
        """Predictions for all test texts, without β and with that of every learning rate."""

        def answer(batch: Batch) -> _Answered:
            tokens = keep_all_but_last(self.model, batch, prefix)
            vanilla, attention = read(self.model, tokens, self.words)
            ways = {
                name: _predict(self.model, tokens, beta, self.words)
                for name, beta in self.betas.items()
            }
            ways = {"vanilla": vanilla, **ways}
            return _Answered(batch.examples, batch.labels.tolist(), attention, ways)

        return _whole(self._run(test, answer, prefix))

    def baselines(
        self,
        inputs: Mapping[str, pl.DataFrame],
        test: pl.DataFrame,
        prefix: Prefix,
        tested: _Answered,
        learned: LastTokens,
    ) -> tuple[dict[str, _Way], list[pl.DataFrame]]:
        """Predictions of each baseline, after the model's answers to its ``inputs``, if any.

        With these answers, without β and with that of every learning rate.
        """
        training, features = read(self.model, learned, self.words)
        labels, ways, answers = learned.labels.cpu().numpy(), {}, []
        for name, prompts in inputs.items():
            before = _before(self.model, prompts, test, prefix)
            own = self.plain(prompts, before)
            if not prompts.is_empty():
                of = {
                    method: self.plain(prompts, before, beta) for method, beta in self.betas.items()
                }
                answers += [
                    _to_inputs(name, prompts, *each) for each in {"vanilla": own, **of}.items()
                ]
            observed = Observed(
                tested.ways["vanilla"].probabilities,
                tested.attention,
                features,
                labels,
                training.probabilities,
                own.probabilities,
            )
            ways[name] = _Way(_finite(name, baseline(name).predict(observed)))
        return ways, answers

    def plain(self, prompts: pl.DataFrame, prefix: Prefix, beta: Weights | None = None) -> _Way:
        """Predictions for the prompts of one protocol, in order of ``example``."""

        def answer(batch: Batch) -> tuple[list[int], _Way]:
            tokens = keep_all_but_last(self.model, batch, prefix)
            return batch.examples, _predict(self.model, tokens, beta, self.words)

        found = self._run(prompts, answer, prefix)
        if not found:
            return _Way(np.empty((0, 0)))
        order = np.argsort([example for examples, _ in found for example in examples])
        joined = _joined([way for _, way in found])
        return _Way(*(column[order] for column in joined if column is not None))

    def _run(
        self, prompts: pl.DataFrame, answer: Callable[[Batch], Answer], prefix: Prefix
    ) -> list[Answer]:
        found = []
        for batch, answered in run_batches(
            prompts, self.budget, self.model.device, answer, prefix.tokens
        ):
            found.append(answered)
            self.progress.update(batch.size)
        return found


def _tables(
    fits: Sequence[Fit],
    routing: Mapping[str, Routing],
    spec: Mapping[str, Any],
    prompts: pl.DataFrame,
    predicted: pl.DataFrame,
    answers: Sequence[pl.DataFrame],
) -> Reweighted:
    """The tables of the fit on the whole prefix, of β on the anchors alone, and of predictions."""
    keys = prompts.select("model", "task", "seed").row(0, named=True)
    fit, *of_anchors = fits
    labels = runnable(prompts, "training")["demonstration_labels"][0].to_list()
    anchored = [keyed(_beta(other.beta, labels), keys, BETA) for other in of_anchors]
    return Reweighted(
        beta=keyed(_beta(fit.beta, labels), keys, BETA),
        beta_anchor=pl.concat([pl.DataFrame(schema=frame_schema(BETA)), *anchored]),
        descent=keyed(_descent(fit), keys, DESCENT),
        learning_rates=keyed(_learning_rates(fit, spec), keys, LEARNING_RATES),
        predictions=keyed(predicted, keys, REWEIGHTING).sort("example", "method"),
        routing=pl.concat(
            [
                pl.DataFrame(schema=frame_schema(ROUTING)),
                *(keyed(_coefficients(each), keys, ROUTING) for each in routing.values()),
            ]
        ),
        inputs=pl.concat(
            [
                pl.DataFrame(schema=frame_schema(INPUT_ANSWERS)),
                *(keyed(rows, keys, INPUT_ANSWERS) for rows in answers),
            ]
        ),
    )


def _finite(name: str, probabilities: Array) -> Array:
    """The predictions of a baseline; InputError if any is not finite."""
    if not np.isfinite(probabilities).all():
        raise InputError(
            f"reweighting.baselines: {name} has no finite label probabilities, since the "
            "probability of a label word is too close to 0; choose shorter label words, set "
            "word_score: mean, or leave the baseline out."
        )
    return probabilities


def require_training(prompts: pl.DataFrame, labels: Sequence[str]) -> None:
    """Warn of training texts that are too long; raise InputError if a label has only such."""
    training = prompts.filter(pl.col("demonstrations") == "training")
    short = training.filter(pl.col("skipped").is_null())
    log_skipped(training, "with training texts")
    for label, word in enumerate(labels):
        if label not in short["label"]:
            raise InputError(
                f'tasks.{training["task"][0]}: no training text of the label "{word.strip()}" '
                "gives a prompt within the model's context; raise reweighting.examples_per_label, "
                "lower demonstrations_per_label or choose a model with a longer context."
            )


def _inputs(prompts: pl.DataFrame, name: str) -> pl.DataFrame:
    """The runnable prompts of a baseline's own inputs, if any; warn of those too long."""
    drawn, short = prompts.filter(demonstrations=name), runnable(prompts, name)
    if baseline(name).inputs is not None and short.is_empty():
        raise InputError(
            f"tasks.{prompts['task'][0]}: no input of the baseline {name} gives a prompt within "
            "the model's context; take it out of reweighting.baselines, lower "
            "demonstrations_per_label or choose a model with a longer context."
        )
    if len(short) < len(drawn):
        log.warning(
            "%d of %d inputs of the baseline %s are left out: their prompts exceed the model's "
            "context.",
            len(drawn) - len(short),
            len(drawn),
            name,
        )
    return short


def _before(
    model: PreTrainedModel, input_prompts: pl.DataFrame, test: pl.DataFrame, prefix: Prefix
) -> Prefix:
    """The prefix of a baseline's own inputs: that of the test texts if they begin with it."""
    if input_prompts.is_empty():
        return prefix
    shared = shared_token_ids(pl.concat([test, input_prompts]))
    if len(shared) >= prefix.tokens:
        return prefix
    return compute_prefix(model, shared_token_ids(input_prompts))


def _whole(parts: Sequence[_Answered]) -> _Answered:
    return _Answered(
        [example for part in parts for example in part.examples],
        [label for part in parts for label in part.labels],
        np.concatenate([part.attention for part in parts]),
        {name: _joined([part.ways[name] for part in parts]) for name in parts[0].ways},
    )


def _joined(parts: Sequence[_Way]) -> _Way:
    return _Way(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@torch.no_grad()
def label_probabilities(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Weights | None = None,
    words: Words | None = None,
) -> Array:
    """Softmax over the scores of the label words, [B, C]; see :func:`label_scores`."""
    return _softmax(label_scores(model, tokens, beta, words), tokens, beta)


def _softmax(scores: torch.Tensor, tokens: LastTokens, beta: Weights | None) -> Array:
    check_finite(scores, tokens.examples, beta is not None)
    # In float32, the probability of a word of many tokens may underflow.
    probabilities: Array = scores.cpu().double().softmax(-1).numpy()
    return probabilities


def _predict(
    model: PreTrainedModel,
    tokens: LastTokens,
    beta: Weights | None,
    words: Words | None,
    *observing: Intervention,
) -> _Way:
    """The model's predictions, with or without β."""
    answers = answers_under(model, tokens, beta, words, 1, *observing)
    check_finite(answers.largest, tokens.examples, beta is not None)
    return _Way(
        _softmax(answers.scores, tokens, beta),
        answers.label_mass.cpu().numpy(),
        answers.in_labels.cpu().numpy(),
    )


def read(
    model: PreTrainedModel, tokens: LastTokens, words: Words | None = None
) -> tuple[_Way, Array]:
    """Predictions without β, and attention from the target to the label words.

    Attention is A_l^h(q, p_i) of all layers, heads, and demonstrations as [B, L · H · N], each a
    sum over the tokens of the label word.
    """
    recorded = RecordRows(tokens.rows)
    vanilla = _predict(model, tokens, None, words, recorded)
    rows = recorded.stacked(len(attention_layers(model.config)))  # [L, B, H, K]
    attention = tokens.label_keys.to("cpu").total(rows)  # [L, B, H, N]
    features: Array = attention.transpose(0, 1).flatten(1).double().numpy()
    return vanilla, features


def _predictions(
    method: str, examples: Sequence[int], labels: Sequence[int], way: _Way
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "example": examples,
            "method": method,
            "label": labels,
            "prediction": way.probabilities.argmax(1),
            "probabilities": way.probabilities.tolist(),
            "label_mass": way.label_mass,
            "in_labels": way.in_labels,
        },
        schema_overrides={"label_mass": pl.Float32, "in_labels": pl.Boolean},
    )


def _to_inputs(name: str, prompts: pl.DataFrame, method: str, way: _Way) -> pl.DataFrame:
    """The answers to a baseline's own inputs."""
    columns = {"example": prompts["example"].sort(), "probabilities": way.probabilities.tolist()}
    return pl.DataFrame({"baseline": name, "method": method, **columns})


def _beta(beta: torch.Tensor, demonstration_labels: Sequence[int]) -> pl.DataFrame:
    """β in long form, one row per layer, head, and demonstration."""
    layers, heads, demonstrations = np.indices(beta.shape).reshape(3, -1)
    return pl.DataFrame(
        {
            "layer": layers,
            "head": heads,
            "demonstration": demonstrations,
            "label": np.array(demonstration_labels)[demonstrations],
            "beta": beta.flatten().numpy(),
        }
    )


def _coefficients(routing: Routing) -> pl.DataFrame:
    """The coefficients of directions and the gates of heads in long form."""
    rank, count = routing.directions.rank, routing.coefficients.shape[1]
    parts = []
    for part, values in zip(
        ("direction", "head"), routing.coefficients.split([rank, count - rank], 1), strict=True
    ):
        layers, numbers = np.indices(values.shape).reshape(2, -1)
        columns = {"layer": layers, "number": numbers, "value": values.flatten().numpy()}
        parts.append(pl.DataFrame({**columns, "part": part}))
    return pl.concat(parts)


def _descent(fit: Fit) -> pl.DataFrame:
    """The loss at every step of every fit, first of the fits to halves of the texts."""
    fits: list[tuple[float, int | None, list[Step]]] = [
        (trial.learning_rate, trial.fold, trial.steps) for trial in fit.trials
    ]
    whole = {fit.descent.learning_rate: fit.steps}
    whole |= {rate: further_fit.steps for rate, further_fit in fit.further.items()}
    fits += [(rate, None, steps) for rate, steps in whole.items()]
    rows = [
        {"learning_rate": rate, "fold": fold, **step._asdict()}
        for rate, fold, steps in fits
        for step in steps
    ]
    return pl.DataFrame(rows, schema_overrides={"fold": pl.Int32})


def _learning_rates(fit: Fit, spec: Mapping[str, Any]) -> pl.DataFrame:
    """The learning rates in order, their held-out losses, and which one was chosen."""
    trials = pl.DataFrame(
        [(trial.learning_rate, trial.loss) for trial in fit.trials],
        schema={"learning_rate": pl.Float64, "held_out_loss": pl.Float64},
        orient="row",
    )
    return (
        pl.DataFrame(
            {"learning_rate": spec["learning_rates"]},
            schema_overrides={"learning_rate": pl.Float64},
        )
        .join(
            trials.group_by("learning_rate").mean(),
            on="learning_rate",
            how="left",
            maintain_order="left",
        )
        .with_columns(chosen=pl.col("learning_rate") == fit.descent.learning_rate)
    )


def measure(cell: Cell) -> None:
    spec, task, anchors = cell.spec, cell.task, cell.params.anchors
    samples, prompts = cell.read("samples", SAMPLES), cell.read("prompts", PROMPTS)
    examples = cell.examples(prompts)
    tested = among(prompts, examples)
    further = draw_auxiliary(
        cell.read("texts", TEXTS),
        samples,
        task["labels"],
        spec["examples_per_label"],
        task["many_demonstrations"],
        draw_inputs(spec["baselines"], samples, tested, len(task["fields"])),
        examples,
    )
    builder = PromptBuilder.open(cell.input.tokenizer, task, cell.card["name"])
    auxiliary = builder.build(further)
    prompts = tested.vstack(auxiliary)
    tables = measure_reweighting(
        cell.model(prompts, cost, {**spec, "anchors": anchors}),
        prompts,
        task["labels"],
        spec,
        cell.batch_tokens,
        cell.scoring,
        anchors,
    )
    settings = {"reweighting": spec, "anchors": anchors, "task": task, "model": cell.card}
    cell.write(PROMPTS, auxiliary, settings, "prompts")
    for name, schema in SCHEMAS.items():
        cell.write(schema, getattr(tables, name), {**settings, **cell.scoring}, name)
