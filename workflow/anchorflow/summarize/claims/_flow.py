"""Shares of the three information flows S_wp, S_pq, and S_ww ([A] §2.1)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.depth import first_third, last_third
from anchorflow.summarize.claims._claim import Control, Curve, Depth, Run, Sampled
from anchorflow.summarize.claims._effects import mean_of_examples
from anchorflow.summarize.statistics import mean_where_defined

SHARE = "share of the three flows"
OF_TWO = "share of the two"

Thirds = Callable[[int], slice]


class OfPositions(Protocol):
    """An effect that can be measured at other positions than those of the label words."""

    def __call__(self, run: Run, *, matched: str) -> Sampled:
        """The effect with these positions in place of the label words'."""


class Positions(NamedTuple):
    """Positions that take the place of label words, and the ending of their columns' names."""

    description: str
    ending: str

    def of(self, effect: OfPositions) -> Control:
        """The control that measures an effect at these positions."""
        return Control(self.description, partial(effect, matched=self.ending))


TEXT_TOKEN = Positions("one random token of each text in place of its label word", "_text")
BEFORE = Positions("the token before each label word in its place", "_before")

# Of one seed: maps named columns, each [examples, L], to values [examples].
Values = Callable[[Mapping[str, Array]], Array]


def of_layers(run: Run, columns: tuple[str, ...], values: Values) -> Sampled:
    """The mean over examples of what ``values`` makes of columns of the table ``saliency``."""
    layers = run.rows("saliency")["layer"].n_unique()
    seeds = {}
    for seed, rows in run.by_seed("saliency").items():
        ordered = rows.sort("example", "layer")
        given = {
            name: ordered[name].cast(pl.Float64).fill_null(np.nan).to_numpy().reshape(-1, layers)
            for name in columns
        }
        seeds[seed] = mean_of_examples(ordered, values(given))
    return Sampled(seeds)


def share_of(columns: Mapping[str, Array], name: str, others: tuple[str, ...]) -> Array:
    """A column's share of its sum with others, [examples, L]; NaN where a column has no value.

    Where nothing flows at all, it is NaN too, except for the three flows of the last layer, which
    always have S_ww.
    """
    total = columns[name] + sum(columns[other] for other in others)
    share: Array = np.divide(
        columns[name], total, out=np.full(total.shape, np.nan), where=total > 0
    )
    return share


def flow_over(run: Run, more: str, less: str, where: Thirds, matched: str = "") -> Sampled:
    """Share of one flow minus that of another, mean over a third of the layers.

    Parameters
    ----------
    matched : str
        The positions that take the place of label words, as ``_text``; empty for label words.
    """
    flows = tuple(f"{flow}{matched}" for flow in ("s_wp", "s_pq", "s_ww"))

    def values(columns: Mapping[str, Array]) -> Array:
        first, second = (
            share_of(columns, flow, tuple(other for other in flows if other != flow))
            for flow in (f"{more}{matched}", f"{less}{matched}")
        )
        return mean_where_defined((first - second)[:, where(first.shape[1])], 1)

    return of_layers(run, flows, values)


def flows_over_depth(*flows: str) -> Depth:
    """The shares of these flows in every layer."""
    curves = (Curve(f"S_{f[2:]}", "flow", {"flow": f, "scale": "proportion"}) for f in flows)
    return Depth(SHARE, tuple(curves))


def early_minus_late(values: Array) -> Array:
    """Mean of [examples, L] over the first third of the layers minus that over the last third."""
    layers = values.shape[1]
    early, late = values[:, first_third(layers)], values[:, last_third(layers)]
    return mean_where_defined(early, 1) - mean_where_defined(late, 1)


# What the target receives from a token of a text and of the template, other than label words.
OTHERS = ("target_text", "target_template")


def share_from(columns: Mapping[str, Array], source: str) -> Array:
    """The share of the target's flow from ``source`` in it and the other tokens', [examples, L].

    Flows are per token; that from other tokens of the demonstrations is the mean of text tokens'
    and template tokens'.
    """
    texts, templates = (columns[name] for name in OTHERS)
    return share_of({**columns, "others": (texts + templates) / 2}, source, ("others",))
