"""Rarer replacements for the content words of test texts, chosen with a sentence encoder.

A content word is replaced by its nearest neighbor among the words that are rarer in the task's
training texts. Similarity is the cosine of the encoder's embeddings of the two words, each embedded
alone. Candidates are the content words of the training texts and the whole words in the encoder's
vocabulary; words of the vocabulary that no training text contains have a count of zero. A word that
no training text contains is kept, since no candidate is rarer.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from anchorflow.analyses.perturbations import RARE_WORDS
from anchorflow.analyses.perturbations.words import content_words
from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.prepare.embeddings import encoder_of_job
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.texts import TEXTS
from anchorflow.store.cell import Cell

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_BLOCK = 256  # words compared with all candidates at once; bounds the memory of the cosines
# Marks of tokens that begin a word: of SentencePiece, and of byte-level BPE. WordPiece marks the
# other tokens ("##"), which are not content words.
_BEGINNINGS = ("▁", "Ġ")


def whole_words(vocabulary: Iterable[str]) -> set[str]:
    """The tokens of a vocabulary that are whole content words, in lower case."""
    tokens = list(vocabulary)
    mark = next((m for m in _BEGINNINGS if any(token.startswith(m) for token in tokens)), "")
    begin = (token.removeprefix(mark) for token in tokens if token.startswith(mark))
    return {word.lower() for word in begin if content_words(word) == [word.lower()]}


def nearest_rarer(
    vectors: Array, counts: Array, of_candidates: Array, candidate_counts: Array
) -> tuple[Array, Array]:
    """For each word, the nearest candidate that is rarer.

    ``vectors``, [words, dimensions], and ``of_candidates``, [candidates, dimensions], have unit
    length. The index of the candidate, [words], is the first of equally near ones; its cosine is
    -inf where no candidate is rarer. Cosines are rounded to six digits, so that ties stay ties.
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
    """The rarer word for every content word of the test texts of one task."""
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


def prepare(job: Cell) -> None:
    """Choose rarer words to replace the content words of one task's test texts."""
    encoder, identity = encoder_of_job(job)
    rare_words = choose_rare_words(job.read("texts", TEXTS), encoder)
    job.write(RARE_WORDS, rare_words, {"encoder": identity})
