"""Attribution patching: the effect of a donor's keys and values, to first order and exactly.

In one layer, the keys and values of some tokens of the demonstrations are exchanged for a donor's.
To first order, the loss changes by (k_donor - k)·∂L/∂k + (v_donor - v)·∂L/∂v, summed over these
tokens. Queries alone attend to the exchanged ones, as in the analysis ``transplant``.

Source: after Syed et al. 2024.
"""

import logging
from collections.abc import Collection, Sequence

import polars as pl
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.faithfulness import FAITHFULNESS, TRANSPLANTED
from anchorflow.analyses.flow.measure import ALL, Saliency, label_loss
from anchorflow.analyses.transplant.measure import Setting, transplants
from anchorflow.model.attention_function import RULES, GradientRule, LayerPrefix, intervene
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.frozen_norms import norms_of
from anchorflow.model.interventions import CUTS_AT_ONCE, answers_of_runs
from anchorflow.model.layer_kinds import attention_layers, runs_again
from anchorflow.model.logits import Answers, label_logits
from anchorflow.model.prefix import Prefix
from anchorflow.prepare.label_words import taken_together
from anchorflow.schemas.frames import frame_schema, keyed

log = logging.getLogger(__name__)

OF_STATES = (
    "Some of its layers carry a state from token to token, or select keys among all of a prompt, "
    "so kept keys and values are not all that queries get from the demonstrations "
    "(docs/reference/models.md)."
)
_RULE_OF = {"gradient": "plain", "gim": "gim"}  # by column
_UNKNOWN = ("saliency", "integrated", "attention")  # which are of edges


class _Unheard:
    """A sink of saliency that keeps nothing."""

    def take(
        self, layer: int, rows: slice, keys: slice, saliency: Tensor, examples: slice = ALL
    ) -> None:
        """Ignore a chunk."""


def prefix_gradients(
    model: PreTrainedModel, batch: Batch, prefix: Prefix, rule: GradientRule
) -> dict[int, tuple[Tensor, Tensor]]:
    """∂L/∂k and ∂L/∂v of the demonstrations' keys and values, each [B, G, P, D], by layer."""
    queries = Saliency(_Unheard(), rule)
    with intervene(prefix, queries), norms_of(model, rule):
        label_loss(label_logits(model, batch), batch).backward()
    found = {}
    for layer, (key, value) in queries.leaves.items():
        assert key.grad is not None and value.grad is not None
        found[layer] = (key.grad, value.grad)
    return found


def predicted(changed: LayerPrefix, own: LayerPrefix, gradients: tuple[Tensor, Tensor]) -> Tensor:
    """The change of the loss to first order, with other keys and values in one layer.

    ``gradients`` are those of this layer, as of :func:`prefix_gradients`. The result is [B],
    float64, in nats.
    """
    of_key, of_value = gradients
    from_keys = ((changed.key - own.key) * of_key).sum((1, 2, 3), dtype=torch.float64)
    from_values = ((changed.value - own.value) * of_value).sum((1, 2, 3), dtype=torch.float64)
    return (from_keys + from_values).cpu()


def measure_patching(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    places: Sequence[str],
    donor: str,
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """Rows of ``FAITHFULNESS`` for a donor's keys and values in every layer alone.

    ``places`` are some of ``transplant.places``, and ``donor`` is one of ``transplant.donors``.
    Models that carry a state, or select keys, have none.
    """
    chosen = runnable(prompts, "fixed")
    measured = among(taken_together(chosen), examples)
    parts = [pl.DataFrame(schema=frame_schema(FAITHFULNESS))]
    if measured.is_empty() or not places:
        return parts[0]
    keys = chosen.select("model", "task", "seed").row(0, named=True)
    if runs_again(model.config):
        log.warning("No donor's keys and values for model %s. %s", keys["model"], OF_STATES)
        return parts[0]
    layers = range(len(attention_layers(model.config)))
    wanted = [Setting(donor, "keys_values", at, 0, "at", n, 1) for at in places for n in layers]
    runs = transplants(model, chosen, wanted)

    def measure(batch: Batch) -> pl.DataFrame:
        gradients = {
            name: prefix_gradients(model, batch, runs.untouched, RULES[rule])
            for name, rule in _RULE_OF.items()
        }
        frames = [pl.DataFrame(schema=frame_schema(FAITHFULNESS))]
        for at in range(0, len(runs.settings), CUTS_AT_ONCE):
            some = runs.settings[at : at + CUTS_AT_ONCE]
            of_batch = [runs.intervened(setting)(batch) for setting in some]
            answers = answers_of_runs(model, batch, runs.untouched, of_batch, 1)
            untouched, *losses = (_losses(each, batch) for each in answers)
            for setting, run, loss in zip(some, of_batch, losses, strict=True):
                assert run.prefix is not None
                of_layer = (run.prefix.layers[setting.layer], runs.untouched.layers[setting.layer])
                known = {
                    name: predicted(*of_layer, of_rule[setting.layer])
                    for name, of_rule in gradients.items()
                }
                values = {**known, "change": loss - untouched}
                frame = pl.DataFrame({name: value.numpy() for name, value in values.items()})
                where = {
                    "edges": pl.lit(TRANSPLANTED[setting.places]),
                    "control": pl.lit(False),
                    "draw": pl.lit(setting.draw),
                    "layer": pl.lit(setting.layer),
                }
                unknown = dict.fromkeys(_UNKNOWN, pl.lit(None, pl.Float64))
                frame = frame.with_columns(pl.Series("example", batch.examples), **where, **unknown)
                frames.append(keyed(frame, keys, FAITHFULNESS))
        return pl.concat(frames)

    budget, before = Budget(batch_tokens), runs.untouched.tokens
    with tqdm(total=len(measured), desc="patching", unit="example", mininterval=1) as progress:
        for batch, rows in run_batches(measured, budget, model.device, measure, before):
            parts.append(rows)
            progress.update(batch.size)
    return pl.concat(parts)


def _losses(answers: Answers, batch: Batch) -> Tensor:
    """The loss of each example, [B], float64, on the CPU."""
    logits = answers.label_logits.double().cpu()
    return cross_entropy(logits, batch.labels.cpu(), reduction="none")
