"""What makes good demonstrations: their labels, number, texts, and words ([K] §4)."""

from collections.abc import Sequence
from functools import partial

import polars as pl

from anchorflow.config.cells import OWN
from anchorflow.summarize.claims._claim import (
    DISCRIMINATING,
    PAPER,
    Claim,
    Control,
    NotTested,
    Run,
    Sampled,
)
from anchorflow.summarize.claims._effects import (
    accuracy_over,
    difference_by_seed,
    mean_of_examples,
    minus,
)
from anchorflow.summarize.claims._encoder import encoder_agreement
from anchorflow.summarize.claims._heads import (
    NO_OTHERS,
    ONE_NUMBER,
    candidates,
    candidates_with_fewest,
    fewer_demonstrations,
)
from anchorflow.summarize.label_words import named_labels
from anchorflow.summarize.neighbors import majority

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
    """Accuracy with the true labels in the demonstrations minus with these shuffled, paired.

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
        own, other = (
            each.select("example", right=(pl.col("prediction") == pl.col("label")))
            for each in (rows, shuffled)
        )
        pairs = own.join(other, on="example", suffix="_shuffled").sort("example")
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

    The head is chosen anew for the fewest, so that it is no worse a choice there. As ``permuted``,
    the same heads' agreement with the labels permuted among the demonstrations.

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

    Of labels with equally many demonstrations, that of the most similar one, which is the last.

    Raises
    ------
    NotTested
        If no example was run with both choices.
    """
    prompts = run.by_seed("retrieval_prompts")
    seeds = {}
    for seed, rows in run.by_seed("retrieval").items():
        shown = prompts[seed].filter(pl.col("demonstrations") == choice)
        votes = shown.select(
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
        f"accuracy with {choice} minus with random demonstrations, paired",
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
    """The kind of each of a task's other label words, by their name.

    Random ones are those that are drawn. Named ones are permuted if they are the own words in
    another order, and symbols if each is a single character or has no letters. All others may mean
    something, and are of no kind.
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
    """Mean accuracy with words of some kinds minus that with others, paired by example.

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
        "Answers follow the labels that the demonstrations are shown with",
        "[K] §4.1",
        "accuracy with the demonstrations' labels minus with these shuffled among them, paired",
        "accuracy",
        labels_over_shuffled,
        Control("shuffled labels, which the effect is the difference from"),
        "shuffled labels",
        DISCRIMINATING,
    ),
    Claim(
        "agreement_grows",
        "With more demonstrations, the model agrees more with kernel regression",
        "[K] §4.1",
        "agreement with kernel regression with the sentence encoder, with as many demonstrations "
        "as the budget allows minus with the fewest",
        "share of predictions agreeing",
        agreement_gained,
        Control("the fewest demonstrations, which the effect is the difference from"),
        place=1,
    ),
    Claim(
        "head_agreement_grows",
        "With more demonstrations, a head's kernel regression agrees more with the model",
        "[K] §4.1",
        "held-out agreement of the best head, with as many demonstrations as the budget allows "
        "minus with the fewest, the head chosen for each",
        "share of predictions agreeing",
        head_agreement_gained,
        Control(
            "labels permuted among the demonstrations",
            lambda run: head_agreement_gained(run, "permuted"),
        ),
        undefined=NO_OTHERS,
        place=2,
    ),
    # Demonstrations like the test text often have its label. So the control is the majority of
    # the demonstrations' labels, without any model; and of each label's nearest texts, there
    # are equally many of each.
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
    # Texts of another task are out of distribution, and the labels beside them tell nothing. So
    # the control is what is lost with the labels alone, where they are shuffled among the same
    # texts.
    Claim(
        "in_distribution_helps",
        "Texts of the task are better demonstrations than texts of another one",
        "[K] §4.2",
        "accuracy with random demonstrations minus with texts of another task, paired",
        "accuracy",
        partial(_random_over, less="other_task"),
        Control(
            "the same texts with their labels shuffled, in place of texts of another task",
            partial(_random_over, less="random_labels"),
        ),
        place=2,
    ),
    # The demonstrations show what every word stands for, whichever they are. Words that mean
    # nothing, symbols or random ones, are the control: with them in place of the own words,
    # what makes permuted or random words worse remains, and that the own words name their
    # labels does not.
    Claim(
        "own_words_over_permuted",
        "Label words that name their labels make answers more accurate than if permuted",
        "[K] §4.2",
        "accuracy with the task's own label words minus with these permuted, paired",
        "accuracy",
        lambda run: accuracy_of_kinds(run, [OWN], [PERMUTED]),
        Control(
            "words without meaning in place of the own ones",
            lambda run: accuracy_of_kinds(run, [SYMBOLS, RANDOM], [PERMUTED]),
        ),
        place=2,
    ),
    Claim(
        "own_words_over_random",
        "Label words that name their labels make answers more accurate than random words",
        "[K] §4.2",
        "accuracy with the task's own label words minus with random words, paired",
        "accuracy",
        lambda run: accuracy_of_kinds(run, [OWN], [RANDOM]),
        Control(
            "symbols in place of the own words",
            lambda run: accuracy_of_kinds(run, [SYMBOLS], [RANDOM]),
        ),
        place=3,
    ),
    # The texts farthest from the centers of the clusters are chosen by the same embeddings, and
    # are the opposite. So they are the control, and random demonstrations are what both are
    # compared with.
    Claim(
        "representative_helps",
        "Representative training texts are better demonstrations than random ones",
        "[K] §4.2",
        "accuracy with representative minus with random demonstrations, paired",
        "accuracy",
        partial(_over_random, more="representative"),
        Control(
            "outlying in place of representative demonstrations",
            partial(_over_random, more="outlying"),
        ),
        place=3,
    ),
)
