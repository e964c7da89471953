"""Claims on interventions: what is told from random tokens, and from no training."""

from collections.abc import Sequence
from math import log

import numpy as np
import polars as pl
import pytest

from anchorflow.analyses.transplant.claims import moved_at_best
from anchorflow.claims.claim import NotMeasured, Run
from anchorflow.claims.summarize import load_claims
from constructed.additivity import of_additivity
from constructed.claims import Tables
from constructed.interventions import Change, cutoff, cuts, faithfulness, knockout, transplant

CLAIMS = {claim.name: claim for claim in load_claims()}


def effects(claim: str, tables: Tables) -> list[float]:
    """The effect of a claim and, if it has one of its own, that of its control."""
    run, control = Run("news", tables, "mask", 1.0), CLAIMS[claim].control.measure
    measures = [CLAIMS[claim].measure, *([control] if control else [])]
    return [float(measure(run).effect.values[0]) for measure in measures]


CUT, CARRY = "cutting_label_words", "label_words_carry"
TOGETHER = "positions_carry_together"
ADD_UP = "demonstrations_add_up"
ORDER, SUFFICE = "saliency_orders_layers", "label_words_suffice_late"
GIM = "gim_orders_layers"

# The true label's probability; with edges cut, with as heavy ones cut, and with random ones.
PLAIN_CUT = [0.5, 0.5, 0.5]
EDGES, HEAVY = ("label_to_target", False, 0), ("equal_to_target", False, 0)
RANDOM = ("label_to_target", True, 0)


def with_cut(changes: dict[Change, list[float]], band: tuple = ("last", 2, 1)) -> Tables:
    return {"knockout": knockout(changes, PLAIN_CUT, band)}


OWN, DONOR = [0.25, 0.25, 0.25], [0.75, 0.5, 0.75]
ALL, EARLY = ("all", 0, 6), ("first", 0, 2)
MOVES = {"label": DONOR, "text": OWN, "template": OWN}
TEXTS_MOVE = {"label": OWN, "text": DONOR, "template": OWN}
ALL_MOVE = dict.fromkeys(MOVES, DONOR)


def carried(
    after: dict[tuple[str, int, int], dict[str, list[float]]], donor: str = "other_texts"
) -> Tables:
    """Six layers, with these answers by layers and place."""
    tables = []
    for band, places in after.items():
        taken = {("keys_values", name, 0): values for name, values in places.items()}
        table = transplant(taken, OWN, DONOR, band, name_of_donor=donor)
        tables.append(table.filter(pl.lit(not tables) | pl.col("places").ne("none")))
    return {"transplant": pl.concat(tables)}


RIGHT, WRONG = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]


def ordered(saliency: list[float], attention: list[float]) -> Tables:
    told = dict.fromkeys(("saliency", "gradient", "integrated", "gim"), saliency)
    told["attention"] = attention
    return {"faithfulness": faithfulness(told), "knockout": cuts([0.1, -0.2, 0.3])}


def improved(gim: list[float], gradient: list[float], random_gim: list[float]) -> Tables:
    """Estimates of edges and of random ones, of which attention times gradient is right."""
    told = dict.fromkeys(("saliency", "gradient", "integrated", "attention"), gradient)
    random = {**dict.fromkeys(told, RIGHT), "gim": random_gim}
    both = [faithfulness({**told, "gim": gim}), faithfulness(random, control=True)]
    cut = cuts([0.1, -0.2, 0.3])
    other = cut.filter(pl.col("edges") != "none").with_columns(control=pl.lit(True))
    return {"faithfulness": pl.concat(both), "knockout": pl.concat([cut, other])}


PLAIN, OTHER = [1, 1, 0, 0], [0, 0, 1, 1]


def sufficed(label: list[int], random: list[int]) -> Tables:
    """With these predictions from the last of three layers on."""
    sees = {"label": [OTHER, OTHER, label], "random": [OTHER, OTHER, random]}
    return {"cutoff": cutoff({**sees, "first": [OTHER] * 3}, PLAIN)}


def added(composed: list[float], deranged: list[float]) -> Tables:
    odds = {"one": [0.0, 0.0], "composed": composed, "deranged": deranged}
    return {"additivity": of_additivity(odds)}


def unsure() -> Tables:
    """All answers stay, as unsure as with nothing where other tokens than label words are seen."""
    table = cutoff(dict.fromkeys(("first", "label", "random"), [PLAIN] * 3), PLAIN)
    others = (pl.col("layer") < 3) & (pl.col("sees") != "label")
    of = pl.when(others).then(0.6).otherwise(1.0)
    chosen = pl.when(pl.col("prediction") == 1).then(of).otherwise(1 - of)
    return {"cutoff": table.with_columns(probabilities=pl.concat_list(1 - chosen, chosen))}


@pytest.mark.parametrize(
    ("claim", "tables", "expected"),
    [
        (CUT, with_cut({EDGES: [0.25, 0.25, 0.25], HEAVY: PLAIN_CUT}), [log(3)]),
        # What changes answers in both directions alike is not needed for them.
        (CUT, with_cut({EDGES: [0.25, 0.75, 0.5], HEAVY: PLAIN_CUT}), [0]),
        (CUT, with_cut({EDGES: [0.25, 0.25, 0.5], HEAVY: [0.5, 0.25, 0.25]}), [0]),
        (CUT, with_cut({EDGES: PLAIN_CUT, HEAVY: [0.25, 0.25, 0.25]}), [-log(3)]),
        (CARRY, carried({ALL: MOVES, EARLY: TEXTS_MOVE}), [1]),
        (CARRY, carried({ALL: ALL_MOVE, EARLY: MOVES}), [0]),
        (CARRY, carried({ALL: TEXTS_MOVE}), [-0.5]),
        (ORDER, ordered(RIGHT, WRONG), [1, -1]),
        (ORDER, ordered(RIGHT, RIGHT), [1, 1]),
        (ORDER, ordered(WRONG, RIGHT), [-1, 1]),
        (GIM, improved(RIGHT, WRONG, RIGHT), [2, 0]),
        (GIM, improved(RIGHT, RIGHT, RIGHT), [0, 0]),
        (GIM, improved(WRONG, RIGHT, WRONG), [-2, -2]),
        (SUFFICE, sufficed(PLAIN, [0, 1, 0, 1]), [0.5]),
        (SUFFICE, sufficed(PLAIN, PLAIN), [0]),
        (SUFFICE, sufficed([0, 1, 0, 1], PLAIN), [-0.5]),
        (SUFFICE, unsure(), [1]),
        (ADD_UP, added([1.0, 2.0], [0.0, 1.0]), [1.5, 0.5]),
        # Any more attention to demonstrations may move answers.
        (ADD_UP, added([1.0, 2.0], [1.0, 2.0]), [1.5, 1.5]),
        (ADD_UP, added([0.0, 0.0], [-1.0, 0.0]), [0, -0.5]),
    ],
)
def test_effects(claim: str, tables: Tables, expected: Sequence[float]) -> None:
    assert effects(claim, tables) == pytest.approx(expected)


def by_layer(shares: dict[str, Sequence[float]], donor: str, seeds: int = 3) -> pl.DataFrame:
    """Answers that move by these shares of the way, by place, with the output of each layer.

    There are three demonstrations.
    """
    tables = []
    for layer in range(len(next(iter(shares.values())))):
        taken = {
            ("residual", places, 0): [
                a + of[layer] * (b - a) for a, b in zip(OWN * 2, DONOR * 2, strict=True)
            ]
            for places, of in shares.items()
        }
        band, way = ("at", layer, 1), (OWN * 2, DONOR * 2)
        tables.append(transplant(taken, *way, band, seeds, name_of_donor=donor))
    tokens = pl.when(pl.col("places") == "one_label").then(1).otherwise(3).cast(pl.Int32)
    return pl.concat(tables).unique(maintain_order=True).with_columns(tokens=tokens)


def test_single_positions_are_compared_with_their_sum_at_their_own_best_layers() -> None:
    more = by_layer({"label": [0.1, 0.9, 0.4], "one_label": [0.05, 0.1, 0.2]}, "other_texts")
    other = by_layer({"label": [0.0], "one_label": [1.0]}, "other_task")
    both = pl.concat([more, other.filter(donor="other_task")])
    assert effects(TOGETHER, {"transplant": both}) == pytest.approx([0.7, 2 * 0.2])
    adds_up = by_layer({"label": [0.6], "one_label": [0.2]}, "other_task")
    assert effects(TOGETHER, {"transplant": adds_up}) == pytest.approx([0.4, 0.4])
    # Single ones would add up to 1.8 of the way: at most the whole way is asked for.
    arrives = by_layer({"label": [1.0], "one_label": [0.6]}, "other_task")
    assert effects(TOGETHER, {"transplant": arrives}) == pytest.approx([0.4, 0.4])


def test_the_best_layer_is_that_of_other_texts_in_other_seeds() -> None:
    table = by_layer({"label": [0.5, 0.5], "one_label": [0.0, 0.0]}, "other_texts")
    # In one seed, half of its texts go the whole way with the first layer, and the others none.
    mine = (pl.col("seed") == 0) & (pl.col("layer") == 0) & (pl.col("places") == "label")
    value = pl.when(pl.col("example") % 2 == 0).then(1.0).otherwise(0.0)
    way = [(o, d) for o, d in zip(OWN * 2, DONOR * 2, strict=True)]
    of_text = pl.col("example").replace_strict(dict(enumerate(o for o, _ in way)))
    to = pl.col("example").replace_strict(dict(enumerate(d for _, d in way)))
    second = of_text + value * (to - of_text)
    table = table.with_columns(
        probabilities=pl.when(mine)
        .then(pl.concat_list(1 - second, second))
        .otherwise("probabilities")
    )
    run = Run("news", {"transplant": table}, "mask", 1.0)
    own = moved_at_best(run, "label").by_seed[0]
    parts = dict(zip(own.texts.tolist(), own.statistic(np.eye(len(own.texts)))[:, 0], strict=True))
    # Other seeds' texts all go half of the way, so the first layer is chosen, also where it is bad.
    assert parts == pytest.approx({text: float(text % 2 == 0) for text in range(6)})


def without(*lacking: str) -> Tables:
    seen = [sees for sees in ("first", "label", "random") if sees not in lacking]
    return {"cutoff": cutoff(dict.fromkeys(seen, [PLAIN] * 3), PLAIN)}


@pytest.mark.parametrize(
    ("claim", "tables", "match"),
    [
        (
            CUT,
            with_cut({EDGES: PLAIN_CUT, RANDOM: PLAIN_CUT}),
            "does not cut equal_to_target in the last third",
        ),
        (
            CUT,
            with_cut({EDGES: PLAIN_CUT, HEAVY: PLAIN_CUT}, ("single", 2, 1)),
            "label_to_target in the last third",
        ),
        (
            CARRY,
            carried({ALL: {"label": DONOR, "text": OWN}}),
            "keys and values of text and template tokens",
        ),
        (
            CARRY,
            carried({ALL: MOVES}, donor="permuted"),
            "label tokens from prompts with other texts",
        ),
        (
            TOGETHER,
            {"transplant": by_layer({"label": [1.0], "one_label": [0.0]}, "other_texts", seeds=1)},
            "outputs of layers at label tokens, in two seeds",
        ),
        (
            ORDER,
            {n: rows.filter(edges="none") for n, rows in ordered(RIGHT, WRONG).items()},
            "no prompt fits",
        ),
        (
            ADD_UP,
            {"additivity": of_additivity({"one": [0.0], "whole": [1.0]})},
            "no answers of the kind composed",
        ),
        (SUFFICE, without("random"), "no test text was run with both"),
        (SUFFICE, without("first"), "cutoff.sees lacks first"),
    ],
)
def test_what_is_lacking_is_named(claim: str, tables: Tables, match: str) -> None:
    with pytest.raises(NotMeasured, match=match):
        CLAIMS[claim].measure(Run("news", tables, "mask", 1.0))
