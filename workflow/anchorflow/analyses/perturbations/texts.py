"""Perturbed test texts: inputs out of distribution, made without a language model.

Letters, words, and white space are those of Unicode. Fields are perturbed one by one. No
perturbation removes a whole word, so no field becomes empty and every text keeps its number of
words. The draws for a text depend only on the seed, the task, the perturbation, and the text's row.

Source: typos and rare words after Han et al. 2025, Table 1, where GPT-3.5 rewrote the texts.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from anchorflow.analyses.perturbations import PERTURBED_TEXTS, RARE_WORDS
from anchorflow.analyses.perturbations.words import WORD
from anchorflow.arrays import Array
from anchorflow.config.text_fields import FIELD_SEPARATOR
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES
from anchorflow.store.cell import Cell

# Rows of a QWERTY keyboard, staggered: key i touches keys i and i + 1 of the row above.
_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_RUN = re.compile(r"\S+")  # a word, between white space


def _neighbors() -> dict[str, str]:
    """The letters on the keys that touch each letter's key, in alphabetical order."""
    pairs = [(row[i], row[i + 1]) for row in _KEYS for i in range(len(row) - 1)]
    for above, below in pairwise(_KEYS):
        pairs += [(below[i], above[j]) for i in range(len(below)) for j in (i, i + 1)]
    both = [*pairs, *((b, a) for a, b in pairs)]
    return {key: "".join(sorted(b for a, b in both if a == key)) for key in "".join(_KEYS)}


NEIGHBORS = _neighbors()


def mistyped(text: str, rate: float, draws: Array) -> str:
    """A text with typing errors.

    Each letter is mistyped with probability ``rate``. All errors that are possible there are
    equally likely: transposed with the next letter (if another letter follows, which is then not
    mistyped itself), missing (if a letter precedes it), doubled, or one of the neighboring keys, in
    the same case (if it is on the keyboard).

    ``draws``, [characters, 3], are uniform in [0, 1): whether each letter is mistyped, by which
    error, and with which key.
    """
    written, place = "", 0
    while place < len(text):
        letter, step = text[place], 1
        following = text[place + 1 : place + 2]
        mistaken, which, key = draws[place]
        if not letter.isalpha() or mistaken >= rate:
            written += letter
        else:
            keys = NEIGHBORS.get(letter.lower(), "")
            errors = ["doubled"]
            errors += ["neighboring"] if keys else []
            errors += ["missing"] if place > 0 and text[place - 1].isalpha() else []
            errors += ["transposed"] if following.isalpha() and following != letter else []
            error = errors[int(which * len(errors))]
            if error == "doubled":
                written += letter * 2
            elif error == "neighboring":
                near = keys[int(key * len(keys))]
                written += near.upper() if letter.isupper() else near
            elif error == "transposed":
                written += following + letter
                step = 2
        place += step
    return written


def reordered(text: str, order: Sequence[int] | NDArray[np.int64]) -> str:
    """A text with its words in another order, and its white space unchanged.

    ``order``, [words], is the index of the word that comes first, and so on.
    """
    words = _RUN.findall(text)
    moved = (words[place] for place in order)
    return _RUN.sub(lambda _: next(moved), text)


def recased(text: str, rate: float, draws: Array) -> str:
    """A text with the case of some letters changed, each with probability ``rate``.

    Letters without a single letter in the other case (ß) stay, so that the length stays. ``draws``,
    [characters], are uniform in [0, 1).
    """
    others = (letter.swapcase() for letter in text)
    return "".join(
        other if draw < rate and len(other) == 1 else letter
        for letter, other, draw in zip(text, others, draws, strict=True)
    )


def with_rare_words(text: str, replacements: Mapping[str, str]) -> str:
    """A text with some words replaced, in the case of the word: upper, capitalized, or lower.

    Words and replacements are in lower case.
    """

    def replace(match: re.Match[str]) -> str:
        word = match[0]
        other = replacements.get(word.lower())
        if other is None:
            return word
        if word.isupper():
            return other.upper()
        return other[0].upper() + other[1:] if word[0].isupper() else other

    return WORD.sub(replace, text)


def perturb(
    text: str,
    kind: str,
    spec: Mapping[str, Any],
    random: np.random.Generator,
    replacements: Mapping[str, str],
) -> str:
    of_field: dict[str, Callable[[str], str]] = {
        "typos": lambda part: mistyped(part, spec["typo_rate"], random.random((len(part), 3))),
        "word_order": lambda part: reordered(part, random.permutation(len(_RUN.findall(part)))),
        "case": lambda part: recased(part, spec["case_rate"], random.random(len(part))),
        "rare_words": lambda part: with_rare_words(part, replacements),
    }
    return FIELD_SEPARATOR.join(map(of_field[kind], text.split(FIELD_SEPARATOR)))


def perturb_texts(
    samples: pl.DataFrame, spec: Mapping[str, Any], rare_words: pl.DataFrame
) -> pl.DataFrame:
    """The perturbed test texts of one task and seed.

    ``rare_words`` has no rows if it is not among the kinds.
    """
    found = rare_words.drop_nulls("replacement")
    replacements = dict(zip(found["word"], found["replacement"], strict=True))
    rows = []
    for kind in spec["kinds"]:
        for task, seed, example, text in samples.select(
            "task", "seed", "example", "text"
        ).iter_rows():
            random = generator(seed, task, "perturbed text", kind, example)
            perturbed = perturb(text, kind, spec, random, replacements)
            pairs = list(zip(text.split(), perturbed.split(), strict=True))
            changed = sum(before != after for before, after in pairs)
            rows.append((task, seed, kind, example, perturbed, len(pairs), changed))
    return pl.DataFrame(rows, schema=frame_schema(PERTURBED_TEXTS), orient="row")


def perturbed_samples(samples: pl.DataFrame, perturbed: pl.DataFrame) -> pl.DataFrame:
    """The samples with each perturbed text in place of its test text.

    ``demonstrations`` holds the perturbation.
    """
    of_samples = samples.drop("text", "demonstrations")
    return (
        perturbed.rename({"perturbation": "demonstrations"})
        .join(of_samples, on=["task", "seed", "example"], maintain_order="left")
        .select(frame_schema(SAMPLES).names())
    )


def prepare(job: Cell) -> None:
    samples = job.read("samples", SAMPLES).filter(demonstrations="fixed")
    rare_words = pl.DataFrame(schema=frame_schema(RARE_WORDS))
    settings = {"perturbations": job.spec}
    if job.input["rare_words"]:
        rare_words = job.read("rare_words", RARE_WORDS)
        settings |= {"encoder": job.settings("rare_words")["encoder"]}
    job.write(PERTURBED_TEXTS, perturb_texts(samples, job.spec, rare_words), settings)
