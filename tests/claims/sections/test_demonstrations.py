"""Claims on demonstrations and label words: where each holds, and where not, by hand."""

from collections.abc import Callable
from functools import partial

import polars as pl
import pytest

from anchorflow.analyses.retrieval import RETRIEVAL
from anchorflow.claims.verdicts import NOT_COMPARED, SUPPORTED
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from constructed import claims as made
from constructed.rows import frame

# How many texts of four are right, where with shuffled labels two are.
RIGHT_LABELS = {"holds": 3, "even": 2, "fails": 1}

EFFECTS_LABELS = {"holds": 0.25, "even": 0.0, "fails": -0.25}


def predicted(right: int, words: str = "", share: float = 1.0) -> pl.DataFrame:
    """Predictions of two labels, which have a share and the rest of the probability."""
    rows = made.answered({"x": right}, "label", PREDICTIONS)
    labels = (pl.col("example") % 2).cast(rows.schema["label"])
    of_second = [share if told else 1 - share for told in rows["prediction"]]
    return rows.with_columns(
        labels.alias("label"),
        task=pl.col("task") + words,
        probabilities=pl.Series([[1 - second, second] for second in of_second]),
    )


def tables_of_labels(own: str) -> made.Tables:
    shuffled = predicted(2, "+shuffled")
    return {"predictions": predicted(RIGHT_LABELS[own]), "shuffled_predictions": shuffled}


# Every how many texts the model disagrees with one demonstration of each label, where with all it
# does on one of four.
FEWER_ENCODER = {"holds": 2, "even": 4, "fails": 0}


def tables_of_encoder(own: str) -> made.Tables:
    return {"kernel_predictions": made.model_predictions(), **made.encoder(4, FEWER_ENCODER[own])}


def test_only_texts_with_both_numbers_of_demonstrations_are_compared_of_encoder() -> None:
    tables = tables_of_encoder("holds")
    fewer = {**tables, "counts": tables["counts"].filter(pl.col("example") < 8)}
    assert made.judged("agreement_grows", fewer)["examples"] == 3 * 8
    without = {**tables, "counts": tables["counts"].filter(pl.col("seed") != 1)}
    assert made.judged("agreement_grows", without)["examples"] == 2 * made.HEAD_TEXTS


def test_the_fewest_demonstrations_are_compared_with_all() -> None:
    tables = tables_of_encoder("holds")
    more = tables["counts"].with_columns(
        demonstrations_per_label=pl.lit(2, pl.Int32), prediction=pl.lit(7, pl.Int32)
    )
    counts = pl.concat([more, tables["counts"]])
    found = made.judged("agreement_grows", {**tables, "counts": counts})
    assert found["effect"] == pytest.approx(0.25)


# How many texts of four are right, by the model or by vote, where with random demonstrations the
# model gets one right.
RIGHT_RETRIEVAL = {"holds": 3, "even": 1, "fails": 0}

EFFECTS_RETRIEVAL = {"holds": 0.5, "even": 0.0, "fails": -0.25}


def tables_of_retrieval(choice: str, own: str, vote: str) -> made.Tables:
    """Answers with both choices, and prompts whose demonstrations' labels vote as said."""
    voted = made.answered({choice: RIGHT_RETRIEVAL[vote]}, "choice", RETRIEVAL)
    prompts = [
        {
            **row,
            "demonstrations": demonstrations,
            "demonstration_labels": [1 - answer, answer, answer]
            if choice == "nearest"
            else [1 - answer, answer],
        }
        for row, told in zip(made.cells(), voted["prediction"], strict=True)
        for demonstrations, answer in ((choice, told), ("another", 1 - told))
    ]
    return {
        "retrieval": made.answered(
            {choice: RIGHT_RETRIEVAL[own], "random": 1}, "choice", RETRIEVAL
        ),
        "retrieval_prompts": frame(prompts, PROMPTS),
    }


def test_texts_without_random_demonstrations_are_left_out_of_the_vote_too() -> None:
    tables = tables_of_retrieval("nearest", "holds", "even")
    # The vote is right on every fourth text, on which random demonstrations were not run.
    kept = pl.col("choice").eq("nearest") | (pl.col("example") % 4 != 0)
    found = made.judged(
        "retrieval_helps", {**tables, "retrieval": tables["retrieval"].filter(kept)}
    )
    assert found["effect"] == pytest.approx(2 / 3)
    assert found["control_effect"] == 0


CLAIM_DISTRIBUTION = "in_distribution_helps"

# With random demonstrations, the model gets three texts of four right.
RIGHT_DISTRIBUTION = {"holds": 1, "even": 3, "fails": 4}


def tables_of_distribution(**right: int) -> made.Tables:
    return {"retrieval": made.answered({"random": 3, **right}, "choice", RETRIEVAL)}


def test_what_wrong_labels_cost_by_themselves_is_not_counted_for_the_texts() -> None:
    found = made.judged(CLAIM_DISTRIBUTION, tables_of_distribution(other_task=0, random_labels=2))
    made.expect(found, 0.75, SUPPORTED, None, 0.25)
    found = made.judged(CLAIM_DISTRIBUTION, tables_of_distribution(other_task=2, random_labels=0))
    assert found["reason"] == "also true of its control"


WORDS = {
    "words": [" no", " yes"],
    "permuted": [" yes", " no"],
    "symbols": [" A", " B"],
    "random": [],
}

# How many texts of four are right, where with the words compared with two are.
RIGHT_WORDS = {"holds": 3, "even": 2, "fails": 1}


def tables_of_words(own: int, **others: int) -> made.Tables:
    """Predictions of which so many of four are right with own and other words."""
    worded = [predicted(own), *(predicted(right, f"+{name}") for name, right in others.items())]
    return {"predictions": predicted(own), "worded_predictions": pl.concat(worded)}


def judged_words(claim: str, own: int, **others: int) -> made.Row:
    """What is said of a claim, where so many texts of four are right with own and other words."""
    words = {name: WORDS[name] for name in ("words", *others)}
    return made.of_claim(
        made.summarize(tables_of_words(own, **others), words={"news": words}), claim
    )


def test_a_preference_for_one_word_is_not_taken_for_a_meaning() -> None:
    """Half of the answers are wrong with permuted words, since one of them is always likelier."""
    biased = predicted(4, "+permuted").with_columns(
        prediction=pl.lit(1, pl.Int32),
        probabilities=pl.Series([[0.1 - label / 20, 0.9 + label / 20] for label in (0, 1)] * 60),
    )
    worded = pl.concat([predicted(4), biased])
    tables = {"predictions": predicted(4), "worded_predictions": worded}
    words = {"news": {name: WORDS[name] for name in ("words", "permuted")}}
    found = made.of_claim(made.summarize(tables, words=words), "own_words_over_permuted")
    assert (biased["prediction"] == biased["label"]).mean() == 0.5
    assert found["effect"] == 0


def test_the_control_of_permuted_words_is_the_mean_of_all_words_without_meaning() -> None:
    found = judged_words("own_words_over_permuted", 4, permuted=1, symbols=3, random=2)
    assert found["effect"] == pytest.approx(3 / 4)
    assert found["control_effect"] == pytest.approx((2 / 4 + 1 / 4) / 2)


def test_what_a_task_has_no_words_for_is_said() -> None:
    alone = judged_words("own_words_over_permuted", 3, permuted=2)
    assert (alone["effect"], alone["verdict"]) == (pytest.approx(0.25), NOT_COMPARED)
    assert "its control was not measured: no single letters or signs were" in alone["reason"]


CLAIM_REPRESENTATIVE = "representative_helps"

# With random demonstrations, the model gets one text of four right.
RIGHT_REPRESENTATIVE = {"holds": 3, "even": 1, "fails": 0}


def tables_of_representative(**right: int) -> made.Tables:
    return {"retrieval": made.answered({"random": 1, **right}, "choice", RETRIEVAL)}


def test_what_is_lacking_is_named() -> None:
    remedy = "controls: {shuffled_labels: true}"
    made.lacks("labels_inform", {"predictions": predicted(3)}, "labels were not shuffled", remedy)
    encoded = tables_of_encoder("holds")
    one = {**encoded, "counts": encoded["counts"].clear()}
    made.lacks("agreement_grows", one, "there is only one number of demonstrations")
    retrieved = tables_of_retrieval("nearest", "holds", "even")
    alone = {**retrieved, "retrieval": retrieved["retrieval"].filter(choice="nearest")}
    both = "no test text was run with both"
    remedy = "retrieval: {choices: [nearest]}"
    made.lacks("retrieval_helps", alone, f"{both} nearest and random", remedy)
    made.lacks(
        CLAIM_DISTRIBUTION, tables_of_distribution(random_labels=1), f"{both} random and other"
    )
    outlying = tables_of_representative(outlying=3)
    made.lacks(CLAIM_REPRESENTATIVE, outlying, f"{both} representative and random")
    not_permuted = "the task's own label words were not permuted (label_words)"
    made.lacks("own_words_over_permuted", {"predictions": predicted(3)}, not_permuted)
    # Own words in their own order are of no kind.
    tables = {"predictions": predicted(3), "worded_predictions": predicted(2, "+same")}
    words = {"news": {"words": [" no", " yes"], "same": ["no", "yes"]}}
    found = made.of_claim(made.summarize(tables, words=words), "own_words_over_permuted")
    assert found["verdict"] == "not measured"


@pytest.mark.parametrize(
    ("claim", "tables"),
    [
        (CLAIM_DISTRIBUTION, tables_of_distribution(other_task=1)),
        (CLAIM_REPRESENTATIVE, tables_of_representative(representative=3)),
    ],
)
def test_without_its_control_there_is_an_effect_and_no_verdict(
    claim: str, tables: made.Tables
) -> None:
    found = made.judged(claim, tables)
    assert (found["effect"], found["verdict"]) == (0.5, NOT_COMPARED)
    assert found["reason"].startswith("its control was not measured: no test text was run with")


CONSTRUCTED = (
    made.Constructed("labels_inform", tables_of_labels, EFFECTS_LABELS, made.ALONE),
    made.Constructed("agreement_grows", tables_of_encoder, EFFECTS_LABELS, made.TWIN),
    made.Constructed(
        "retrieval_helps", partial(tables_of_retrieval, "nearest"), EFFECTS_RETRIEVAL, made.CONTROL
    ),
    made.Constructed(
        "in_distribution_helps",
        lambda own, control: tables_of_distribution(
            other_task=RIGHT_DISTRIBUTION[own], random_labels=RIGHT_DISTRIBUTION[control]
        ),
        EFFECTS_RETRIEVAL,
        made.CONTROL,
    ),
    made.Constructed(
        "own_words_over_permuted",
        lambda own, control: tables_of_words(
            RIGHT_WORDS[own], permuted=2, symbols=RIGHT_WORDS[control]
        ),
        EFFECTS_LABELS,
        made.CONTROL,
        words={"news": {name: WORDS[name] for name in ("words", "permuted", "symbols")}},
    ),
    made.Constructed(
        "representative_helps",
        lambda own, control: tables_of_representative(
            representative=RIGHT_REPRESENTATIVE[own], outlying=RIGHT_REPRESENTATIVE[control]
        ),
        EFFECTS_RETRIEVAL,
        made.CONTROL,
    ),
)


@made.verdicts_of(*CONSTRUCTED)
def test_verdicts(check: Callable[[], None]) -> None:
    check()
