"""Rarer words for the content words of test texts, by a sentence encoder.

A content word is a word of at least three letters that is none of ``FUNCTION_WORDS``, in any case.
Words with digits or apostrophes, such as contractions, are none. No tagger is used, so names count
as content words, and in a language other than English, function words do too.

A content word is replaced by its nearest neighbor, by the cosine of the encoder's embeddings of the
two words by themselves, among the words that are rarer in the task's training texts. Candidates are
the content words of the training texts and of the encoder's own vocabulary, as far as that holds
whole words; one of the latter that no training text has occurs zero times there. So a word that no
training text has stays: nothing is rarer.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.rare_words import RARE_WORDS

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Letters that no letter, digit, or apostrophe within the same word is next to.
WORD = re.compile(r"(?<!\w)(?<!\w['’])[^\W\d_]{3,}(?!\w|['’]\w)")

# English words of three letters and more that have a grammatical role rather than a meaning:
# articles, pronouns, prepositions, conjunctions, auxiliary verbs, negations, and plain adverbs.
FUNCTION_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
    the this that these those each every either neither both all any some such same other another
    much many more most few less least several enough own
    you she him her his hers they them their theirs its our ours your yours mine who whom whose
    which what whatever whichever whoever myself yourself himself herself itself ourselves
    yourselves themselves one ones someone somebody something anyone anybody anything everyone
    everybody everything nobody nothing none
    about above across after against along amid among amongst around before behind below beneath
    beside besides between beyond despite down during except for from inside into near off onto out
    outside over past per since than through throughout till toward towards under underneath until
    upon via with within without
    and but nor yet because although though unless whereas whether while when where why how
    whenever wherever however therefore thus hence else
    are was were been being has have had having does did doing done can could may might must shall
    should will would ought cannot
    not never too very quite rather just only even also still already again ever here there then
    now once almost perhaps maybe
    """,
    )
)

_BLOCK = 256  # words that are compared with the whole vocabulary at once
# What vocabularies write before tokens that begin a word.
_BEGINNINGS = ("▁", "Ġ")


def content_words(text: str) -> list[str]:
    """The content words of a text in order, in lower case."""
    found = (match[0].lower() for match in WORD.finditer(text))
    return [word for word in found if word not in FUNCTION_WORDS]


def whole_words(vocabulary: Iterable[str]) -> set[str]:
    """The content words among the tokens of a vocabulary that are whole words."""
    tokens = list(vocabulary)
    mark = next((m for m in _BEGINNINGS if any(token.startswith(m) for token in tokens)), "")
    begin = (token.removeprefix(mark) for token in tokens if token.startswith(mark))
    return {word.lower() for word in begin if content_words(word) == [word.lower()]}


def nearest_rarer(
    vectors: Array, counts: Array, of_candidates: Array, candidate_counts: Array
) -> tuple[Array, Array]:
    """The nearest of the candidates that are rarer than each word.

    Parameters
    ----------
    vectors, of_candidates : [words, dimensions] and [candidates, dimensions]
        Of unit length.
    counts, candidate_counts : [words] and [candidates]

    Returns
    -------
    tuple of arrays
        Index of the candidate, [words], of equally near ones the first; and the cosine, rounded to
        six digits, -inf where no candidate is rarer.
    """
    nearest, similarity = [], []
    for start in range(0, len(vectors), _BLOCK):
        block = slice(start, start + _BLOCK)
        cosine = np.round(vectors[block] @ of_candidates.T, 6)
        cosine[candidate_counts[None] >= counts[block, None]] = -np.inf
        nearest.append(cosine.argmax(1))
        similarity.append(cosine.max(1))
    return np.concatenate(nearest), np.concatenate(similarity)


def choose_rare_words(texts: pl.DataFrame, encoder: "SentenceTransformer") -> pl.DataFrame:
    """The rarer word for every content word of the test texts of one task.

    Parameters
    ----------
    texts : DataFrame
        ``TEXTS`` of the task.

    Returns
    -------
    DataFrame
        Columns of ``RARE_WORDS``, ordered by word.

    Raises
    ------
    InputError
        If the vector of a word is zero or not finite.
    """
    of_split = {
        split: Counter(word for text in rows["text"] for word in content_words(text))
        for (split,), rows in texts.group_by("split")
    }
    count, words = of_split["train"], sorted(of_split["test"])
    candidates = sorted({*count, *whole_words(encoder.tokenizer.get_vocab())})
    if not words or not candidates:
        return _frame(texts["task"][0], [(word, count[word], None, None, None) for word in words])
    every = sorted({*words, *candidates})
    vectors = dict(zip(every, _embedded(every, encoder), strict=True))
    nearest, similarity = nearest_rarer(
        np.stack([vectors[word] for word in words]),
        np.array([count[word] for word in words]),
        np.stack([vectors[word] for word in candidates]),
        np.array([count[word] for word in candidates]),
    )
    rows: list[tuple[Any, ...]] = []
    for word, place, cosine in zip(words, nearest, similarity, strict=True):
        rarer = candidates[place]
        found = (rarer, count[rarer], cosine) if np.isfinite(cosine) else (None, None, None)
        rows.append((word, count[word], *found))
    return _frame(texts["task"][0], rows)


def _embedded(words: Sequence[str], encoder: "SentenceTransformer") -> Array:
    """The words' embeddings, [words, dimensions], of unit length."""
    vectors: Array = encoder.encode(
        list(words), normalize_embeddings=True, show_progress_bar=True
    ).astype(np.float64)
    bad = np.flatnonzero(~(np.abs(np.linalg.norm(vectors, axis=1) - 1) < 1e-3))
    if len(bad):
        raise InputError(
            f'encoder.path: it gives the word "{words[int(bad[0])]}" a vector of length zero, or '
            "one that is not finite; choose another encoder, or leave rare_words out of "
            "perturbations.kinds."
        )
    return vectors


def _frame(task: str, rows: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    named = [(task, *row) for row in rows]
    return pl.DataFrame(named, schema=frame_schema(RARE_WORDS), orient="row")
