"""Shares of the three information flows S_wp, S_pq, and S_ww ([A] §2.1)."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.claims.claim import (
    DISCRIMINATING,
    Claim,
    Control,
    Curve,
    Depth,
    Effect,
    Run,
    Sampled,
)
from anchorflow.claims.effects import mean_of_examples
from anchorflow.depth import first_third, last_third
from anchorflow.statistics.estimates import mean_where_defined

READS = ("flow",)

Third = Callable[[int], slice]  # of so many layers
SHARE, OF_TWO = "share of the three flows", "share of the two"

# What takes the place of label words.
TEXT_TOKEN = "one random token of each text in place of its label word"
BEFORE = "the token before each label word in its place"


class Share(NamedTuple):
    """A flow's share of its sum with others, or with their mean."""

    flow: str
    others: tuple[str, ...]
    with_mean: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table ``flow`` that it needs."""
        return (self.flow, *self.others)

    def of(self, columns: Mapping[str, Array]) -> Array:
        """From flows [examples, L]; NaN where one has no value, or the sum is 0.

        The three flows of the last layer always include S_ww, so that their sum is not 0.
        """
        others = sum(columns[name] for name in self.others)
        total = columns[self.flow] + (others / len(self.others) if self.with_mean else others)
        share: Array = np.divide(
            columns[self.flow], total, out=np.full(total.shape, np.nan), where=total > 0
        )
        return share


def flow_over(run: Run, more: Share, less: Share | None, third: Third) -> Sampled:
    """How far one share exceeds another, or 0.5 for None; the mean over a third of the layers."""
    layers = run.rows("flow")["layer"].n_unique()
    names = {name for share in (more, less) if share for name in share.columns}
    seeds = {}
    for seed, rows in run.by_seed("flow").items():
        ordered = rows.sort("example", "layer").with_columns(
            pl.col(*names).cast(pl.Float64).fill_null(np.nan)
        )
        flows = {name: ordered[name].to_numpy().reshape(-1, layers) for name in names}
        of_layers = more.of(flows)
        if less is not None:
            of_layers = of_layers - less.of(flows)
        values = mean_where_defined(of_layers[:, third(layers)], 1)
        seeds[seed] = mean_of_examples(ordered, values if less else values - 0.5)
    return Sampled(seeds)


def of_three(more: str, less: str, third: Third, ending: str = "") -> Effect:
    """The share of one of the three flows over that of another, at positions by their ending."""
    flows = {name: f"s_{name}{ending}" for name in ("wp", "pq", "ww")}
    first, second = (
        Share(flows[name], tuple(flow for other, flow in flows.items() if other != name))
        for name in (more, less)
    )
    return partial(flow_over, more=first, less=second, third=third)


def into(place: str) -> Effect:
    """The flow from a text to its label word, or to another place, over that to its own tokens.

    Flows are per pair of tokens. Most of S_wp comes from the template and from earlier
    demonstrations, which says nothing of a label word's own text.
    """
    share = Share(f"own_{place}", ("own_text",))
    return partial(flow_over, more=share, less=None, third=first_third)


def to_target(flow: str) -> Effect:
    """A flow to the target over that from another token of the demonstrations.

    Flows are per token; that from other tokens is the mean of those from text and from template
    tokens.
    """
    share = Share(flow, ("target_text", "target_template"), with_mean=True)
    return partial(flow_over, more=share, less=None, third=last_third)


def flows_over_depth(*flows: str) -> Depth:
    """The shares of these flows in every layer."""
    curves = (Curve(f"S_{f[2:]}", "flow", {"flow": f, "scale": "proportion"}) for f in flows)
    return Depth(SHARE, tuple(curves))


def _one_over_another(
    name: str, statement: str, more: str, less: str, end: str, question: str = ""
) -> Claim:
    third = {"first": first_third, "last": last_third}[end]
    return Claim(
        name,
        statement,
        "[A] §2.1",
        f"S_{more} minus S_{less}, {end} third of the layers",
        SHARE,
        of_three(more, less, third),
        Control(TEXT_TOKEN, of_three(more, less, third, "_text")),
        over_depth=flows_over_depth(f"s_{more}", f"s_{less}"),
        figure="flow",
        question=question,
    )


CLAIMS = (
    _one_over_another(
        "flow_early",
        "In early layers, more information flows into the label words than from them to the target",
        "wp",
        "pq",
        "first",
        "In early layers, do label words gather more than they hand on?",
    ),
    _one_over_another(
        "flow_late",
        "In late layers, more information flows from the label words to the target than into them",
        "pq",
        "wp",
        "last",
        "In late layers, do label words hand on more than they gather?",
    ),
    _one_over_another(
        "flow_wp_over_ww",
        "In early layers, more information flows into the label words than between other tokens",
        "wp",
        "ww",
        "first",
    ),
    _one_over_another(
        "flow_pq_over_ww",
        "In late layers, more information flows from the label words to the target than between "
        "other tokens",
        "pq",
        "ww",
        "last",
    ),
    Claim(
        "flow_into_label_words",
        "In early layers, more information of a text flows into its label word than into its own "
        "tokens",
        "[A] §2.1",
        "share of the flow from a text to its label word in its sum with that to later tokens of "
        "the text, per pair of tokens, minus 0.5, first third of the layers",
        OF_TWO,
        into("label"),
        Control(BEFORE, into("before")),
        form=DISCRIMINATING,
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
        to_target("s_pq"),
        Control(TEXT_TOKEN, to_target("s_pq_text")),
        form=DISCRIMINATING,
        figure="flow",
        question="In late layers, is more handed on by label words than by other tokens?",
    ),
)
