"""Answers with deranged and with own label words, by what they follow, for numbers by hand."""

from collections.abc import Mapping, Sequence

import polars as pl

from anchorflow.analyses.compression import COMPRESSION
from anchorflow.analyses.override import OVERRIDE
from anchorflow.analyses.override.summarize import PRIOR, summarize_override
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

LABELS = [0, 0, 1, 1]
MEANT = [1, 1, 0, 0]  # with two labels, the other word has the meaning of a text's class
FIRST, SECOND = [0] * 4, [1] * 4  # the same answer to every text
Answers = Mapping[str, Sequence[int]]  # by method; those of PRIOR are without demonstrations


def answers(
    of: Answers, seeds: int = 3, labels: Sequence[int] = LABELS, **same: str
) -> pl.DataFrame:
    """These answers in every seed, as the table ``override``."""
    rows = [
        {"seed": seed, "example": example, "method": method, "label": label}
        | {"prediction": answer, "probabilities": [0.5, 0.5]}
        for seed in range(seeds)
        for method, given in of.items()
        for example, (label, answer) in enumerate(zip(labels, given, strict=True))
    ]
    return frame(rows, OVERRIDE, **same)


def summary(deranged: Answers, own: Answers) -> pl.DataFrame:
    """The summary of three seeds; with own words, there are a further one and a further text."""
    with_own = {method: [*given, 0] for method, given in own.items()}
    rows = answers(with_own, 4, [*LABELS, 1]).with_columns(share=None, draw=0, kept=1, shared=1)
    compression = frame(rows.to_dicts(), COMPRESSION)
    keys = [{"seed": seed, "example": text} for seed in range(3) for text in range(4)]
    prompts = frame([{**key, "demonstrations": "fixed"} for key in keys], PROMPTS)
    return summarize_override(answers(deranged), compression, prompts, 0.9)


def example() -> pl.DataFrame:
    """A model that follows its demonstrations from everything, and its prior from the anchors."""
    deranged = {PRIOR: FIRST, "full": LABELS, "hidden_anchor": FIRST}
    return summary(deranged, {PRIOR: FIRST, "full": LABELS, "hidden_anchor": SECOND})
