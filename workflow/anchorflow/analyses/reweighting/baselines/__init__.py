"""Baselines of re-weighting, in addition to plain in-context learning.

Each file in this folder is one baseline of the same name. To add one, add a file with

- a docstring whose first paragraph is one sentence that describes the baseline; it becomes part
  of the configuration's documentation,
- ``predict(observed)``, of type :data:`Predict`,
- ``inputs(texts, random)``, of type :data:`Inputs`, if the model has to answer further inputs.

The names of other rows and prompts are reserved: ``vanilla``, ``many``, ``training``, ``fixed``,
``per_example``, ``routed``, and all that begin with ``reweighted``.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anchorflow.arrays import Array
from anchorflow.config.registry import load
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.random_draws import generator

FOLDER = "analyses/reweighting/baselines"


class Observed(NamedTuple):
    """What a baseline can use, for one model, task, and seed."""

    vanilla: Array  # [T, C], label probabilities of all test texts
    attention: Array  # [T, A], their attention to the label words
    features: Array  # [M, A], the same for each training text
    labels: NDArray[np.int64]  # [M], of the training texts; each class at least once
    training: Array  # [M, C], label probabilities of the training texts
    inputs: Array  # [F, C], label probabilities of the baseline's own inputs


# To the label probabilities of all test texts, [T, C].
Predict = Callable[[Observed], Array]
# From the test texts and a generator to what stands in their place after the demonstrations.
Inputs = Callable[[Sequence[str], np.random.Generator], Sequence[str]]


class Baseline(NamedTuple):
    """What the file of a baseline defines."""

    predict: Predict
    inputs: Inputs | None


def baseline(name: str) -> Baseline:
    """The baseline of this name, from its file."""
    module = load(FOLDER, name)
    return Baseline(module.predict, getattr(module, "inputs", None))


def draw_inputs(
    names: Sequence[str], samples: pl.DataFrame, prompts: pl.DataFrame, fields: int = 1
) -> dict[str, Sequence[str]]:
    """The inputs of each baseline that has some, from a random stream of its name.

    If texts have several fields, so have the inputs: each field is drawn from that field of the
    test texts. The test texts are those whose prompts with fixed demonstrations are run, since
    longer ones would make inputs too long. If none is run, there are no inputs.
    """
    run = prompts.filter(pl.col("demonstrations") == "fixed", pl.col("skipped").is_null())
    test = samples.filter(
        pl.col("demonstrations") == "fixed", pl.col("example").is_in(run["example"].implode())
    )
    if test.is_empty():
        return {}
    first, texts = test.row(0, named=True), test["text"].to_list()
    of_fields = (
        zip(*(text.split(FIELD_SEPARATOR) for text in texts), strict=True)
        if fields > 1
        else [texts]
    )
    by_field = [list(of_field) for of_field in of_fields]
    chosen: Mapping[str, Inputs | None] = {name: baseline(name).inputs for name in names}
    drawn: dict[str, Sequence[str]] = {}
    for name, inputs in chosen.items():
        if inputs is not None:
            random = generator(first["seed"], first["task"], "baseline", name)
            parts = zip(*(inputs(of_field, random) for of_field in by_field), strict=True)
            drawn[name] = [FIELD_SEPARATOR.join(part) for part in parts]
    return drawn
