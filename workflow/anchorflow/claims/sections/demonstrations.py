"""Effects of the demonstrations' labels, texts, and label words ([K] §4)."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import polars as pl

from anchorflow.analyses.confusion.summarize import separated_pairs
from anchorflow.analyses.label_words.summarize import named_labels
from anchorflow.analyses.retrieval.summarize import majority
from anchorflow.arrays import Array
from anchorflow.claims.claim import DISCRIMINATING, Claim, Control, NotMeasured, Run, Sampled
from anchorflow.claims.effects import accuracy_gained, accuracy_over, mean_of_examples
from anchorflow.config.cell_names import OWN
from anchorflow.statistics.by_task import per_seed, texts_of
from anchorflow.statistics.estimates import SeedStatistic, Statistic, mean_where_defined

READS = ("predictions", "retrieval", "retrieval_prompts")


def labels_over_shuffled(run: Run) -> Sampled:
    """Accuracy with true labels of the demonstrations minus that with shuffled labels, paired."""
    if "predictions" not in run.shuffled or run.shuffled["predictions"].is_empty():
        raise NotMeasured("labels were not shuffled", "controls: {shuffled_labels: true}")
    seeds = {}
    for seed, rows in run.by_seed("predictions").items():
        shuffled = run.shuffled["predictions"].filter(pl.col("seed") == seed)
        if gained := accuracy_gained(rows, shuffled):
            seeds[seed] = gained
    return Sampled.of_any(seeds, "no text was run with both kinds of labels")


def vote_over_random(run: Run, choice: str) -> Sampled:
    """Accuracy of the demonstrations' majority label minus the model's with random demonstrations.

    Of labels with equally many demonstrations, the last counts, since it is the most similar one.
    """
    prompts = run.by_seed("retrieval_prompts")
    seeds = {}
    for seed, rows in run.by_seed("retrieval").items():
        of_choice = prompts[seed].filter(pl.col("demonstrations") == choice)
        votes = of_choice.select(
            "example",
            voted=pl.col("demonstration_labels").map_elements(majority, return_dtype=pl.Int32),
        )
        chosen = rows.filter(pl.col("choice") == choice).select("example")
        random = rows.filter(pl.col("choice") == "random")
        pairs = random.join(chosen, on="example").join(votes, on="example").sort("example")
        if not pairs.is_empty():
            of_vote = (pairs["voted"] == pairs["label"]).cast(pl.Float64)
            of_model = (pairs["prediction"] == pairs["label"]).cast(pl.Float64)
            seeds[seed] = mean_of_examples(pairs, (of_vote - of_model).to_numpy())
    lacking = f"no test text was run with both {choice} and random demonstrations"
    return Sampled.of_any(seeds, lacking)


PERMUTED, SYMBOLS, RANDOM = "permuted", "symbols", "random"

_LACKING = {
    PERMUTED: "the task's own label words were not permuted (label_words)",
    SYMBOLS: "no single letters or signs were named as label words (label_words)",
    RANDOM: "no label words were drawn at random (random_words)",
}


def kinds_of_words(run: Run) -> dict[str, str]:
    """The kind of a task's other label words, by their name in the configuration.

    Words drawn at random are of the kind random. Words given by name are permuted if they are the
    task's own words in another order, and symbols if each is a single character or has no letters.
    All others may have a meaning and are of no kind.
    """
    kinds = {}
    for name in run.worded:
        words = run.words[name]
        named = named_labels(words, run.words[OWN])
        if not words:
            kinds[name] = RANDOM
        elif named is not None and named != sorted(named):
            kinds[name] = PERMUTED
        elif all(_means_nothing(word.strip()) for word in words):
            kinds[name] = SYMBOLS
    return kinds


def _means_nothing(word: str) -> bool:
    return len(word) == 1 or not any(character.isalpha() for character in word)


def separation_by_kinds(run: Run, more: Sequence[str], less: Sequence[str]) -> Sampled:
    """Mean AUC of label pairs with words of some kinds minus that with others, on the same texts.

    A preference for one word, in all texts alike, lowers accuracy but no AUC. ``OWN`` stands for
    the task's own words.
    """
    kinds = {OWN: OWN, **kinds_of_words(run)}
    sides = [[name for name, kind in kinds.items() if kind in side] for side in (more, less)]
    for side, names in zip((more, less), sides, strict=True):
        if not names:
            raise NotMeasured("; ".join(_LACKING[kind] for kind in side))
    answers = {OWN: run.rows("predictions"), **run.worded}
    common = run.rows("predictions").select("seed", "example")
    for name in (*sides[0], *sides[1]):
        common = common.join(answers[name], on=["seed", "example"], how="semi")
    seeds = {}
    for texts in per_seed(common):
        of = {
            name: separated_pairs(answers[name].join(texts, on=["seed", "example"], how="semi"))
            for name in (*sides[0], *sides[1])
        }

        def difference(weights: Array, of: Mapping[str, Statistic] = of) -> Array:
            means = [np.mean([of[name](weights) for name in names], 0) for names in sides]
            return mean_where_defined(means[0] - means[1], 1)[:, None]

        seeds[int(texts["seed"][0])] = SeedStatistic(difference, texts_of(texts))
    return Sampled.of_any(seeds, "no text was run with all of these words")


_retrieved = partial(
    Claim,
    null="",
    figure="retrieval",
    asked_for={"retrieval": "retrieval: {choices: [nearest, nearest_per_label]}"},
)

CLAIMS = (
    Claim(
        "labels_inform",
        "Answers depend on the labels of the demonstrations",
        "[K] §4.1",
        "accuracy with true labels of the demonstrations minus that with labels exchanged so that "
        "each has another one, paired",
        "accuracy",
        labels_over_shuffled,
        Control.subtracted("shuffled labels"),
        null="shuffled labels",
        form=DISCRIMINATING,
        figure="accuracy",
        question="Does the answer depend on the labels of the demonstrations?",
    ),
    # Demonstrations similar to the test text often have its label. The control is therefore the
    # majority of the demonstrations' labels, without any model.
    _retrieved(
        "retrieval_helps",
        "The nearest training texts are better demonstrations than random ones",
        "[K] §4.2",
        "accuracy with nearest demonstrations minus that with random ones, paired",
        "accuracy",
        lambda run: accuracy_over(run, "retrieval", "nearest", "random"),
        Control(
            "the majority of the demonstrations' labels in place of the model's answer",
            partial(vote_over_random, choice="nearest"),
        ),
        question="Are the most similar texts better demonstrations than random ones?",
    ),
    # Texts of another task are out of distribution, and their labels carry no information. The
    # control is the loss due to the labels alone, with those of the same texts in a random order.
    _retrieved(
        "in_distribution_helps",
        "Texts of the task are better demonstrations than texts of another task",
        "[K] §4.2",
        "accuracy with random demonstrations minus that with texts of another task, paired",
        "accuracy",
        lambda run: accuracy_over(run, "retrieval", "random", "other_task"),
        Control(
            "the same texts with their labels in a random order, in place of texts of another task",
            lambda run: accuracy_over(run, "retrieval", "random", "random_labels"),
        ),
    ),
    # Demonstrations define what a word stands for, whatever the word. Accuracy would also measure
    # how much the model prefers one of the words, so labels are compared in pairs. Words without
    # meaning (symbols or random words) are the control: with them in place of the task's own words,
    # the disadvantage of permuted or random words remains, but no word names its label.
    Claim(
        "own_words_over_permuted",
        "Label words that name their labels separate texts better than the same words permuted",
        "[K] §4.2",
        "AUC of label pairs with the task's own label words minus that with the same words "
        "permuted, mean over pairs",
        "AUC",
        lambda run: separation_by_kinds(run, [OWN], [PERMUTED]),
        Control(
            "words without meaning in place of the task's own words",
            lambda run: separation_by_kinds(run, [SYMBOLS, RANDOM], [PERMUTED]),
        ),
        null="",
        figure="label_words",
    ),
    # The texts farthest from the cluster centers are chosen by the same embeddings, with the
    # opposite criterion, so they are the control. Both are compared with random demonstrations.
    _retrieved(
        "representative_helps",
        "Representative training texts are better demonstrations than random ones",
        "[K] §4.2",
        "accuracy with representative demonstrations minus that with random ones, paired",
        "accuracy",
        lambda run: accuracy_over(run, "retrieval", "representative", "random"),
        Control(
            "outlying in place of representative demonstrations",
            lambda run: accuracy_over(run, "retrieval", "outlying", "random"),
        ),
    ),
)
