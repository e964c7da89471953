"""Claims on interventions: what is told from random tokens, and from no training."""

from math import log

import polars as pl
import pytest

from anchorflow.claims.claim import NotMeasured, Run
from anchorflow.claims.sections import causes
from constructed.interventions import Change, cutoff, cuts, faithfulness, knockout, transplant

CLAIMS = {claim.name: claim for claim in causes.CLAIMS}

PLAIN_CUT = [0.5, 0.5, 0.5]

EDGES, HEAVY = ("label_to_target", False, 0), ("equal_to_target", False, 0)


def effect_cut(
    cut: dict[Change, list[float]], band: tuple[str, int, int] = ("last", 2, 1)
) -> float:
    run = Run("news", {"knockout": knockout(cut, PLAIN_CUT, band)}, "mask", 1.0)
    return float(CLAIMS["cutting_label_words"].measure(run).effect.values[0])


def test_it_holds_where_cutting_label_words_alone_makes_the_true_label_less_likely() -> None:
    assert effect_cut({EDGES: [0.25, 0.25, 0.25], HEAVY: PLAIN_CUT}) == pytest.approx(log(3))
    # What changes answers in both directions alike is not needed for them.
    assert effect_cut({EDGES: [0.25, 0.75, 0.5], HEAVY: PLAIN_CUT}) == pytest.approx(0)


def test_it_fails_where_as_much_other_attention_changes_as_much() -> None:
    assert effect_cut({EDGES: [0.25, 0.25, 0.5], HEAVY: [0.5, 0.25, 0.25]}) == pytest.approx(0)
    assert effect_cut({EDGES: PLAIN_CUT, HEAVY: [0.25, 0.25, 0.25]}) < -0.5


def test_it_is_not_tested_without_other_edges_of_equal_attention_or_the_last_third() -> None:
    random = ("label_to_target", True, 0)
    with pytest.raises(NotMeasured, match="does not cut equal_to_target in the last third"):
        effect_cut({EDGES: PLAIN_CUT, random: PLAIN_CUT})
    with pytest.raises(NotMeasured, match="label_to_target in the last third"):
        effect_cut({EDGES: PLAIN_CUT, HEAVY: PLAIN_CUT}, ("single", 2, 1))


OWN, DONOR = [0.25, 0.25, 0.25], [0.75, 0.5, 0.75]
ALL, EARLY = ("all", 0, 6), ("first", 0, 2)


def run_carry(
    after: dict[tuple[str, int, int], dict[str, list[float]]], donor: str = "other_texts"
) -> Run:
    """Six layers, with these answers by layers and place."""
    tables = []
    for band, places in after.items():
        taken = {("keys_values", name, 0): values for name, values in places.items()}
        table = transplant(taken, OWN, DONOR, band, name_of_donor=donor)
        tables.append(table.filter(pl.lit(not tables) | pl.col("places").ne("none")))
    return Run("news", {"transplant": pl.concat(tables)}, "mask", 1.0)


def effects(run: Run, name: str) -> list[float]:
    """The effect of a claim and, if it has one of its own, that of its control."""
    claim = CLAIMS[name]
    measures = [claim.measure, *([claim.control.measure] if claim.control.measure else [])]
    return [float(measure(run).effect.values[0]) for measure in measures]


MOVES = {"label": DONOR, "text": OWN, "template": OWN}
TEXTS_MOVE = {"label": OWN, "text": DONOR, "template": OWN}
ALL_MOVE = dict.fromkeys(MOVES, DONOR)


def test_it_holds_where_label_words_alone_move_the_answer() -> None:
    run = run_carry({ALL: MOVES, EARLY: TEXTS_MOVE})
    assert effects(run, "label_words_carry") == pytest.approx([1])


def test_it_fails_where_other_tokens_move_it_as_far() -> None:
    run = run_carry({ALL: ALL_MOVE, EARLY: MOVES})
    assert effects(run, "label_words_carry") == pytest.approx([0])
    assert effects(run_carry({ALL: TEXTS_MOVE}), "label_words_carry") == pytest.approx([-0.5])


def test_it_is_not_tested_without_other_tokens_or_where_label_words_alone_differ() -> None:
    with pytest.raises(NotMeasured, match="keys and values of text and template tokens"):
        effects(run_carry({ALL: {"label": DONOR, "text": OWN}}), "label_words_carry")
    with pytest.raises(NotMeasured, match="label tokens from prompts with other texts"):
        effects(run_carry({ALL: MOVES}, donor="permuted"), "label_words_carry")


RIGHT, WRONG = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]


def run_of(saliency: list[float], attention: list[float]) -> Run:
    told = {
        "saliency": saliency,
        "gradient": saliency,
        "integrated": saliency,
        "attention": attention,
    }
    tables = {"faithfulness": faithfulness(told), "knockout": cuts([0.1, -0.2, 0.3])}
    return Run("news", tables, "mask", 1.0)


def values(run: Run) -> tuple[float, float]:
    control = CLAIMS["saliency_orders_layers"].control.measure
    assert control is not None
    return tuple(
        float(measure(run).effect.values[0])
        for measure in (CLAIMS["saliency_orders_layers"].measure, control)
    )


def test_it_holds_where_saliency_alone_has_the_order() -> None:
    assert values(run_of(RIGHT, WRONG)) == pytest.approx((1, -1))


def test_it_does_not_exceed_attention_that_has_the_same_order_and_fails_with_the_reverse() -> None:
    assert values(run_of(RIGHT, RIGHT)) == pytest.approx((1, 1))
    assert values(run_of(WRONG, RIGHT)) == pytest.approx((-1, 1))


def test_it_is_not_tested_without_label_words() -> None:
    run = run_of(RIGHT, WRONG)
    other = {name: rows.filter(rows["edges"] == "none") for name, rows in run.tables.items()}
    with pytest.raises(NotMeasured):
        causes.rank_of(Run("news", other, "mask", 1.0))


PLAIN_SUFFICE = [1, 1, 0, 0]


def effect_suffice(label: list[int], random: list[int]) -> float:
    """With these predictions from the last of three layers on."""
    other = [0, 0, 1, 1]
    tables = {"label": [other, other, label], "random": [other, other, random]}
    tables["first"] = [other, other, other]
    run = Run("news", {"cutoff": cutoff(tables, PLAIN_SUFFICE)}, "mask", 1.0)
    return float(CLAIMS["label_words_suffice_late"].measure(run).effect.values[0])


def test_it_holds_where_label_words_alone_keep_the_answer() -> None:
    assert effect_suffice(PLAIN_SUFFICE, [0, 1, 0, 1]) == pytest.approx(0.5)


def test_it_fails_where_any_tokens_keep_it() -> None:
    assert effect_suffice(PLAIN_SUFFICE, PLAIN_SUFFICE) == pytest.approx(0)
    assert effect_suffice([0, 1, 0, 1], PLAIN_SUFFICE) == pytest.approx(-0.5)


def test_answers_that_all_stay_may_be_less_sure_with_other_tokens() -> None:
    table = cutoff(dict.fromkeys(("first", "label", "random"), [PLAIN_SUFFICE] * 3), PLAIN_SUFFICE)
    # Certain with all demonstrations and with label words, as unsure with others as with nothing.
    unsure = (pl.col("layer") < 3) & (pl.col("sees") != "label")
    of = pl.when(unsure).then(0.6).otherwise(1.0)
    chosen = pl.when(pl.col("prediction") == 1).then(of).otherwise(1 - of)
    table = table.with_columns(probabilities=pl.concat_list(1 - chosen, chosen))
    run = Run("news", {"cutoff": table}, "mask", 1.0)
    assert effects(run, "label_words_suffice_late") == pytest.approx([1])


@pytest.mark.parametrize(
    ("sees", "match"),
    [
        (("first", "label"), "no test text was run with both"),
        (("label", "random"), "cutoff.sees lacks first"),
    ],
)
def test_it_is_not_tested_without_other_tokens_of_suffice(sees: list[str], match: str) -> None:
    table = cutoff(dict.fromkeys(sees, [PLAIN_SUFFICE] * 3), PLAIN_SUFFICE)
    with pytest.raises(NotMeasured, match=match):
        CLAIMS["label_words_suffice_late"].measure(Run("news", {"cutoff": table}, "mask", 1.0))
