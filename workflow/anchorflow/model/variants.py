"""Queries run again and again after changed demonstrations, from the first layer that differs."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor
from transformers import PreTrainedModel

from anchorflow.model.attention_function import Intervention, intervene
from anchorflow.model.batches import Batch
from anchorflow.model.language_model import keep_outputs, resume, target_states
from anchorflow.model.prefix import Prefix


class Variant(NamedTuple):
    """A run of queries that differs from the untouched one from ``start`` on.

    Up to the output of layer ``start - 1``, the queries are as in the untouched run.
    """

    prefix: Prefix
    start: int
    interventions: tuple[Intervention, ...] = ()


def states_of_variants(
    model: PreTrainedModel, batch: Batch, untouched: Prefix, variants: Sequence[Variant]
) -> list[Tensor]:
    """What the head gets at the target: of the untouched run, then of each variant.

    Parameters
    ----------
    batch : Batch
        Queries, without the shared demonstrations.
    untouched : Prefix
        The shared demonstrations of the untouched run.

    Returns
    -------
    list of Tensor
        Each [B, hidden], for :func:`~anchorflow.model.language_model.answers_after`.
    """
    needed = {variant.start - 1 for variant in variants if variant.start > 0}
    with intervene(untouched), keep_outputs(model, needed) as kept:
        states = [target_states(model, batch)]
    for prefix, start, interventions in variants:
        with intervene(prefix, *interventions):
            if start == 0:
                states.append(target_states(model, batch))
                continue
            with resume(model, kept[start - 1]):
                states.append(target_states(model, batch))
    return states
