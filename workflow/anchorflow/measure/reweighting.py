"""Predictions with re-weighted attention to label words, and with its baselines.

The methods are those of [A] Table 1 (plain in-context learning, more demonstrations, and
re-weighting) and the ``baselines``.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.measure.attention import RecordRows
from anchorflow.measure.baselines import Observed, baseline
from anchorflow.measure.beta_fit import Fit, Reweight, fit_reweighting
from anchorflow.model.attention_function import Intervention, intervene
from anchorflow.model.batches import Batch, Budget, run_batches, runnable
from anchorflow.model.language_model import check_finite
from anchorflow.model.last_tokens import LastTokens, keep_all_but_last, keep_together
from anchorflow.model.prefix import compute_prefix, shared_token_ids
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.reweighting import BETA, DESCENT, LEARNING_RATES, REWEIGHTING

log = logging.getLogger(__name__)


class Reweighted(NamedTuple):
    """The tables that the stage writes."""

    beta: pl.DataFrame  # BETA
    descent: pl.DataFrame  # DESCENT
    learning_rates: pl.DataFrame  # LEARNING_RATES
    predictions: pl.DataFrame  # REWEIGHTING


SCHEMAS = {
    "beta": BETA,
    "descent": DESCENT,
    "learning_rates": LEARNING_RATES,
    "predictions": REWEIGHTING,
}


def measure_reweighting(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    labels: Sequence[str],
    spec: Mapping[str, Any],
    batch_tokens: int,
) -> Reweighted:
    """Fit β, and predict every runnable test text with and without it.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed: the test texts with fixed demonstrations, and the
        prompts of ``reweighting_samples.py``.
    labels : sequence of str
        Label words, in label order.
    spec : mapping
        ``baselines``, ``learning_rates``, ``epochs``, and ``batch_size``, as in the configuration.
    batch_tokens : int
        Upper bound on tokens per batch of test texts; does not affect the results.

    Raises
    ------
    InputError
        If no training text of some label fits the context, or a loss or probability is not finite.
    """
    test, training, free, many = (
        runnable(prompts, kind) for kind in ("fixed", "training", "content_free", "many")
    )
    if test.is_empty():
        return Reweighted(*(pl.DataFrame(schema=frame_schema(s)) for s in SCHEMAS.values()))
    keys = prompts.select("model", "task", "seed").row(0, named=True)
    _require_training(prompts, labels)
    prefix = compute_prefix(model, shared_token_ids(pl.concat([test, training, free])))
    budget = Budget(batch_tokens)
    learned = keep_together(model, training, prefix, budget)
    fit = fit_reweighting(model, learned, spec, keys["seed"], keys["task"])
    log.info("Learning rate %g, final loss %.3g.", fit.descent.learning_rate, fit.steps[-1].loss)

    content_free, _ = read(model, keep_together(model, free, prefix, budget))
    _, features = read(model, learned)
    observed = Observed(content_free, features, learned.labels.cpu().numpy())
    baselines = {name: baseline(name)(observed) for name in spec["baselines"]}

    def predict(batch: Batch) -> pl.DataFrame:
        tokens = keep_all_but_last(model, batch, prefix)
        vanilla, attention = read(model, tokens)
        reweighted = label_probabilities(model, tokens, Reweight.last(fit.beta, tokens))
        ways = {
            "vanilla": vanilla,
            **{name: answer(vanilla, attention) for name, answer in baselines.items()},
            "reweighted": reweighted,
        }
        return pl.concat([_predictions(way, tokens, found) for way, found in ways.items()])

    predicted = []
    total = len(test) + len(many)
    with tqdm(total=total, desc="reweighting", unit="example", mininterval=1) as progress:
        for batch, rows in run_batches(test, budget, model.device, predict, prefix.tokens):
            predicted.append(rows)
            progress.update(batch.size)
        if not many.is_empty():
            longer = compute_prefix(model, shared_token_ids(many))

            def predict_with_many(batch: Batch) -> pl.DataFrame:
                tokens = keep_all_but_last(model, batch, longer)
                return _predictions("many", tokens, label_probabilities(model, tokens))

            for batch, rows in run_batches(
                many, budget, model.device, predict_with_many, longer.tokens
            ):
                predicted.append(rows)
                progress.update(batch.size)
    demonstration_labels = training["demonstration_labels"][0].to_list()
    return Reweighted(
        beta=keyed(_beta(fit.beta, demonstration_labels), keys, BETA),
        descent=keyed(_descent(fit), keys, DESCENT),
        learning_rates=keyed(_learning_rates(fit, spec), keys, LEARNING_RATES),
        predictions=keyed(pl.concat(predicted), keys, REWEIGHTING).sort("example", "method"),
    )


def _require_training(prompts: pl.DataFrame, labels: Sequence[str]) -> None:
    """Warn of training texts that are too long; raise InputError if a label has no others."""
    training = prompts.filter(pl.col("demonstrations") == "training")
    short = training.filter(pl.col("skipped").is_null())
    if len(short) < len(training):
        log.warning(
            "%d of %d training texts are left out: their prompts exceed the model's context.",
            len(training) - len(short),
            len(training),
        )
    for label, word in enumerate(labels):
        if label not in short["label"]:
            raise InputError(
                f'tasks.{training["task"][0]}: no training text of the label "{word.strip()}" '
                "gives a prompt within the model's context; raise reweighting.examples_per_label, "
                "lower demonstrations_per_label or choose a model with a longer context."
            )


@torch.no_grad()
def label_probabilities(
    model: PreTrainedModel, tokens: LastTokens, *interventions: Intervention
) -> Array:
    """Softmax over the label words, [B, C].

    Raises
    ------
    InputError
        If a logit is not finite.
    """
    with intervene(tokens, *interventions):
        logits = tokens.logits(model)
    reweighted = any(isinstance(each, Reweight) for each in interventions)
    check_finite(logits, tokens.examples, reweighted)
    probabilities: Array = logits.softmax(-1).double().cpu().numpy()
    return probabilities


def read(model: PreTrainedModel, tokens: LastTokens) -> tuple[Array, Array]:
    """Label probabilities without β, and attention to the label words.

    Returns
    -------
    tuple
        [B, C]; and A_l^h(q, p_i) of all layers, heads, and demonstrations as [B, L · H · N], each
        a sum over the tokens of the label word.
    """
    recorded = RecordRows(tokens.rows)
    probabilities = label_probabilities(model, tokens, recorded)
    rows = recorded.stacked(model.config.get_text_config().num_hidden_layers)  # [L, B, H, K]
    attention = tokens.label_keys.to("cpu").total(rows)  # [L, B, H, N]
    features: Array = attention.transpose(0, 1).flatten(1).double().numpy()
    return probabilities, features


def _predictions(method: str, tokens: LastTokens, probabilities: Array) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "example": tokens.examples,
            "method": method,
            "label": tokens.labels.tolist(),
            "prediction": probabilities.argmax(1),
            "probabilities": probabilities.tolist(),
        }
    )


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


def beta_of(table: pl.DataFrame) -> torch.Tensor:
    """β as [L, H, N], float32, from ``BETA`` of one model, task, and seed."""
    order = ("layer", "head", "demonstration")
    shape = [0 if table.is_empty() else table[name].n_unique() for name in order]
    return torch.tensor(table.sort(order)["beta"].to_list(), dtype=torch.float32).reshape(shape)


def _descent(fit: Fit) -> pl.DataFrame:
    """The loss at every step of every fit, beginning with fits to halves of the texts."""
    fits = [(trial.learning_rate, trial.fold, trial.steps) for trial in fit.trials]
    rows = [
        {"learning_rate": rate, "fold": fold, **step._asdict()}
        for rate, fold, steps in [*fits, (fit.descent.learning_rate, None, fit.steps)]
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
