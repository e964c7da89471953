"""Accuracy with a task's own label words compared with others ([K] §4.2, Min et al. 2022).

The demonstrations show what every word stands for, whichever they are. Words that mean nothing,
symbols or random ones, are the control: with them in place of the own words, what makes permuted or
random words worse remains, and that the own words name their labels does not.
"""

from collections.abc import Sequence

import polars as pl

from anchorflow.config.cells import OWN
from anchorflow.summarize.claims._claim import Claim, Control, NotTested, Run, Sampled
from anchorflow.summarize.claims._effects import difference_by_seed
from anchorflow.summarize.label_words import named_labels

READS = ("predictions",)

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


CLAIMS: tuple[Claim, ...] = (
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
)
