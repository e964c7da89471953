"""Effects of the demonstrations' labels, number, texts, and label words ([K] §4)."""

from collections.abc import Sequence
from functools import partial

import polars as pl

from anchorflow.analyses.label_words.summarize import named_labels
from anchorflow.analyses.retrieval.summarize import majority
from anchorflow.claims.claim import DISCRIMINATING, PAPER, Claim, Control, NotTested, Run, Sampled
from anchorflow.claims.effects import accuracy_over, difference_by_seed, mean_of_examples, minus
from anchorflow.claims.encoder import encoder_agreement
from anchorflow.claims.heads import (
    NO_OTHERS,
    ONE_NUMBER,
    candidates,
    candidates_with_fewest,
    fewer_demonstrations,
)
from anchorflow.config.cell_names import OWN

READS = (
    "predictions",
    "counts",
    "kernel_predictions",
    "kernel_samples",
    "embeddings",
    "kernel",
    "retrieval",
    "retrieval_prompts",
)


def labels_over_shuffled(run: Run) -> Sampled:
    """Accuracy with true labels of the demonstrations minus that with shuffled labels, paired.

    Raises
    ------
    NotTested
        If no prompts with shuffled labels were run.
    """
    if "predictions" not in run.shuffled or run.shuffled["predictions"].is_empty():
        raise NotTested("labels were not shuffled (controls.shuffled_labels)")
    seeds = {}
    for seed, rows in run.by_seed("predictions").items():
        shuffled = run.shuffled["predictions"].filter(pl.col("seed") == seed)
        original, other = (
            predictions.select("example", right=(pl.col("prediction") == pl.col("label")))
            for predictions in (rows, shuffled)
        )
        pairs = original.join(other, on="example", suffix="_shuffled").sort("example")
        if not pairs.is_empty():
            gained = pairs["right"].cast(pl.Float64) - pairs["right_shuffled"].cast(pl.Float64)
            seeds[seed] = mean_of_examples(pairs, gained.to_numpy())
    if not seeds:
        raise NotTested("no text was run with both kinds of labels")
    return Sampled(seeds)


def agreement_gained(run: Run) -> Sampled:
    """Agreement with the encoder's kernel, all demonstrations minus the fewest, paired.

    Raises
    ------
    NotTested
        If there is only one number of demonstrations.
    """
    counts = fewer_demonstrations(run)
    seeds = {}
    for seed, every in run.by_seed("kernel_predictions").items():
        of_seed = counts.filter(pl.col("seed") == seed)
        if of_seed.is_empty():
            continue
        fewest = int(of_seed["demonstrations_per_label"].to_numpy().min())
        few = of_seed.filter(
            pl.col("demonstrations_per_label") == fewest,
            pl.col("example").is_in(every["example"].implode()),
        )
        both = every.filter(pl.col("example").is_in(few["example"].implode()))
        if both.is_empty():
            continue
        gained = encoder_agreement(run, both, None) - encoder_agreement(run, few, fewest)
        seeds[seed] = mean_of_examples(both, gained)
    if not seeds:
        raise NotTested(ONE_NUMBER)
    return Sampled(seeds)


def head_agreement_gained(run: Run, measure: str = "agreement") -> Sampled:
    """Held-out agreement of the best head, all demonstrations minus the fewest, paired.

    The head is chosen anew for the fewest, so that its choice favors neither side. With the measure
    ``permuted``, the same heads' agreement with labels permuted among the demonstrations.

    Raises
    ------
    NotTested
        If there is only one number of demonstrations, or no text to score a head on.
    """
    few, every = candidates_with_fewest(run), candidates(run)
    return minus(
        every.held_out(getattr(every, measure), every.best()),
        few.held_out(getattr(few, measure), few.best()),
    )


def vote_over_random(run: Run, choice: str) -> Sampled:
    """Accuracy of the demonstrations' majority label minus the model's with random demonstrations.

    Of labels with equally many demonstrations, the last counts, since it is the most similar one.

    Raises
    ------
    NotTested
        If no example was run with both choices.
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
    if not seeds:
        raise NotTested(f"no example was run with both {choice} and random demonstrations")
    return Sampled(seeds)


def _of_choice(name: str, statement: str, choice: str, form: str, place: int) -> Claim:
    return Claim(
        name,
        statement,
        "[K] §4.2",
        f"accuracy with {choice} demonstrations minus that with random ones, paired",
        "accuracy",
        partial(accuracy_over, table="retrieval", column="choice", more=choice, less="random"),
        Control(
            "the majority of the demonstrations' labels in place of the model's answer",
            partial(vote_over_random, choice=choice),
        ),
        form=form,
        place=place,
    )


_random_over = partial(accuracy_over, table="retrieval", column="choice", more="random")

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


def accuracy_of_kinds(run: Run, more: Sequence[str], less: Sequence[str]) -> Sampled:
    """Mean accuracy with words of some kinds minus that with words of others, paired by example.

    ``OWN`` stands for the task's own words.

    Raises
    ------
    NotTested
        If the task has no words of these kinds, or no example was run with all of them.
    """
    kinds = {OWN: OWN, **kinds_of_words(run)}
    sides = [[name for name, kind in kinds.items() if kind in side] for side in (more, less)]
    for side, names in zip((more, less), sides, strict=True):
        if not names:
            raise NotTested("; ".join(_LACKING[kind] for kind in side))
    answers = {OWN: run.rows("predictions"), **run.worded}
    measured = pl.concat(
        answers[name].select(
            "seed",
            "example",
            right=(pl.col("prediction") == pl.col("label")).cast(pl.Float64),
            words=pl.lit(name),
        )
        for name in [*sides[0], *sides[1]]
    )
    settings = [[{"words": name} for name in names] for names in sides]
    return difference_by_seed(measured, settings[0], settings[1], "right")


_over_random = partial(accuracy_over, table="retrieval", column="choice", less="random")

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "labels_inform",
        "Answers depend on the labels of the demonstrations",
        "[K] §4.1",
        "accuracy with true labels of the demonstrations minus that with shuffled labels, paired",
        "accuracy",
        labels_over_shuffled,
        Control("shuffled labels, already subtracted in the effect"),
        "shuffled labels",
        DISCRIMINATING,
    ),
    Claim(
        "agreement_grows",
        "With more demonstrations, the model agrees more with kernel regression",
        "[K] §4.1",
        "agreement with the sentence encoder's kernel regression, with as many demonstrations as "
        "the budget allows minus that with the fewest",
        "share of predictions agreeing",
        agreement_gained,
        Control("the fewest demonstrations, already subtracted in the effect"),
        place=1,
    ),
    Claim(
        "head_agreement_grows",
        "With more demonstrations, a head's kernel regression agrees more with the model",
        "[K] §4.1",
        "held-out agreement of the best head, with as many demonstrations as the budget allows "
        "minus that with the fewest, the head chosen anew for each",
        "share of predictions agreeing",
        head_agreement_gained,
        Control(
            "labels permuted among the demonstrations",
            lambda run: head_agreement_gained(run, "permuted"),
        ),
        undefined=NO_OTHERS,
        place=2,
    ),
    # Demonstrations similar to the test text often have its label. The control is therefore the
    # majority of the demonstrations' labels, without any model. Each label's nearest texts are
    # the stricter choice, since all labels are then equally frequent.
    _of_choice(
        "retrieval_helps",
        "The nearest training texts are better demonstrations than random ones",
        "nearest",
        PAPER,
        0,
    ),
    _of_choice(
        "retrieval_per_label_helps",
        "Each label's nearest training texts are better demonstrations than random ones",
        "nearest_per_label",
        DISCRIMINATING,
        1,
    ),
    # Texts of another task are out of distribution, and their labels carry no information. The
    # control is the loss due to the labels alone, when they are shuffled among the same texts.
    Claim(
        "in_distribution_helps",
        "Texts of the task are better demonstrations than texts of another task",
        "[K] §4.2",
        "accuracy with random demonstrations minus that with texts of another task, paired",
        "accuracy",
        partial(_random_over, less="other_task"),
        Control(
            "the same texts with their labels shuffled, in place of texts of another task",
            partial(_random_over, less="random_labels"),
        ),
        place=2,
    ),
    # Demonstrations define what a word stands for, whatever the word. Words without meaning
    # (symbols or random words) are the control: with them in place of the task's own words, the
    # disadvantage of permuted or random words remains, but no word names its label.
    Claim(
        "own_words_over_permuted",
        "Label words that name their labels yield higher accuracy than the same words permuted",
        "[K] §4.2",
        "accuracy with the task's own label words minus that with the same words permuted, paired",
        "accuracy",
        lambda run: accuracy_of_kinds(run, [OWN], [PERMUTED]),
        Control(
            "words without meaning in place of the task's own words",
            lambda run: accuracy_of_kinds(run, [SYMBOLS, RANDOM], [PERMUTED]),
        ),
        place=2,
    ),
    Claim(
        "own_words_over_random",
        "Label words that name their labels yield higher accuracy than random words",
        "[K] §4.2",
        "accuracy with the task's own label words minus that with random words, paired",
        "accuracy",
        lambda run: accuracy_of_kinds(run, [OWN], [RANDOM]),
        Control(
            "symbols in place of the task's own words",
            lambda run: accuracy_of_kinds(run, [SYMBOLS], [RANDOM]),
        ),
        place=3,
    ),
    # The texts farthest from the cluster centers are chosen by the same embeddings, with the
    # opposite criterion, so they are the control. Both are compared with random demonstrations.
    Claim(
        "representative_helps",
        "Representative training texts are better demonstrations than random ones",
        "[K] §4.2",
        "accuracy with representative demonstrations minus that with random ones, paired",
        "accuracy",
        partial(_over_random, more="representative"),
        Control(
            "outlying in place of representative demonstrations",
            partial(_over_random, more="outlying"),
        ),
        place=3,
    ),
)
