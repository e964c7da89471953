"""Shares of the three information flows S_wp, S_pq, and S_ww ([A] §2.1)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.claims.claim import (
    DISCRIMINATING,
    UNTRAINED,
    Claim,
    Control,
    Curve,
    Depth,
    Run,
    Sampled,
)
from anchorflow.claims.effects import mean_of_examples
from anchorflow.depth import first_third, last_third
from anchorflow.statistics.estimates import mean_where_defined

READS = ("flow",)


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
    """The mean over examples of ``values`` of some columns of the table ``flow``."""
    layers = run.rows("flow")["layer"].n_unique()
    seeds = {}
    for seed, rows in run.by_seed("flow").items():
        ordered = rows.sort("example", "layer")
        given = {
            name: ordered[name].cast(pl.Float64).fill_null(np.nan).to_numpy().reshape(-1, layers)
            for name in columns
        }
        seeds[seed] = mean_of_examples(ordered, values(given))
    return Sampled(seeds)


def share_of(columns: Mapping[str, Array], name: str, others: tuple[str, ...]) -> Array:
    """A column's share of its sum with others, [examples, L]; NaN where a column has no value.

    It is NaN as well where the sum is 0. The three flows of the last layer always include S_ww.
    """
    total = columns[name] + sum(columns[other] for other in others)
    share: Array = np.divide(
        columns[name], total, out=np.full(total.shape, np.nan), where=total > 0
    )
    return share


def flow_over(run: Run, more: str, less: str, where: Thirds, matched: str = "") -> Sampled:
    """Share of one flow minus that of another, mean over a third of the layers.

    ``matched`` names the positions that take the place of label words, such as ``_text``.
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


# Flow to the target from a token of the texts, and from one of the template.
OTHERS = ("target_text", "target_template")


def share_from(columns: Mapping[str, Array], source: str) -> Array:
    """Share of the flow from ``source`` to the target in its sum with other tokens, [examples, L].

    Flows are per token; that from other tokens of the demonstrations is the mean of the flows from
    text tokens and from template tokens.
    """
    texts, templates = (columns[name] for name in OTHERS)
    return share_of({**columns, "others": (texts + templates) / 2}, source, ("others",))


def into_label_words(run: Run, matched: str = "") -> Sampled:
    """Share of the flow from a text to its label word in its sum with that to its own tokens.

    Minus 0.5; flows are per pair of tokens. Most of S_wp comes from the template and from earlier
    demonstrations, which says nothing of a label word's own text.
    """
    into = f"own{matched or '_label'}"

    def values(columns: Mapping[str, Array]) -> Array:
        share = share_of(columns, into, ("own_text",))
        return mean_where_defined(share[:, first_third(share.shape[1])], 1) - 0.5

    return of_layers(run, (into, "own_text"), values)


def from_label_words(run: Run, matched: str = "") -> Sampled:
    """Share of S_pq in its sum with the flow from another demonstration token, minus 0.5."""
    source = f"s_pq{matched}"

    def values(columns: Mapping[str, Array]) -> Array:
        share = share_from(columns, source)
        return mean_where_defined(share[:, last_third(share.shape[1])], 1) - 0.5

    return of_layers(run, (source, *OTHERS), values)


def _one_over_another(
    name: str, statement: str, more: str, less: str, end: str, place: int, question: str = ""
) -> Claim:
    third = {"first": first_third, "last": last_third}[end]
    effect = partial(flow_over, more=f"s_{more}", less=f"s_{less}", where=third)
    return Claim(
        name,
        statement,
        "[A] §2.1",
        f"S_{more} minus S_{less}, {end} third of the layers",
        SHARE,
        effect,
        TEXT_TOKEN.of(effect),
        UNTRAINED,
        over_depth=flows_over_depth(f"s_{more}", f"s_{less}"),
        place=place,
        figure="flow",
        question=question,
    )


CLAIMS: tuple[Claim, ...] = (
    _one_over_another(
        "flow_early",
        "In early layers, more information flows into the label words than from them to the target",
        "wp",
        "pq",
        "first",
        1,
        "In early layers, do label words gather more than they hand on?",
    ),
    _one_over_another(
        "flow_late",
        "In late layers, more information flows from the label words to the target than into them",
        "pq",
        "wp",
        "last",
        2,
        "In late layers, do label words hand on more than they gather?",
    ),
    _one_over_another(
        "flow_wp_over_ww",
        "In early layers, more information flows into the label words than between other tokens",
        "wp",
        "ww",
        "first",
        3,
    ),
    _one_over_another(
        "flow_pq_over_ww",
        "In late layers, more information flows from the label words to the target than between "
        "other tokens",
        "pq",
        "ww",
        "last",
        4,
    ),
    Claim(
        "flow_into_label_words",
        "In early layers, more information of a text flows into its label word than into its own "
        "tokens",
        "[A] §2.1",
        "share of the flow from a text to its label word in its sum with that to later tokens of "
        "the text, per pair of tokens, minus 0.5, first third of the layers",
        OF_TWO,
        into_label_words,
        BEFORE.of(into_label_words),
        UNTRAINED,
        DISCRIMINATING,
        place=5,
        figure="flow",
    ),
    Claim(
        "flow_from_label_words",
        "In late layers, more information flows to the target from a label word than from another "
        "token of its demonstration",
        "[A] §2.1",
        "share of S_pq in its sum with the flow from text and template tokens, minus 0.5, last "
        "third of the layers",
        OF_TWO,
        from_label_words,
        TEXT_TOKEN.of(from_label_words),
        UNTRAINED,
        DISCRIMINATING,
        place=6,
        figure="flow",
        question="In late layers, is more handed on by label words than by other tokens?",
    ),
)
