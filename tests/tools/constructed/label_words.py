"""All tables of two tasks with other label words, for measures worked out by hand."""

from collections.abc import Mapping, Sequence

import polars as pl

from anchorflow.analyses.attention import ATTENTION
from anchorflow.analyses.flow import FLOW
from anchorflow.analyses.isolation import ISOLATION
from anchorflow.analyses.isolation.measure import Setting
from anchorflow.analyses.label_words.summarize import summarize_label_words
from anchorflow.config.cell_names import Words
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

WORDS: Words = {
    "mine": {"words": [" no", " yes"], "symbols": [" A", " B"], "permuted": [" yes", " no"]},
    "news": {"words": [" x", " y", " z"], "symbols": [" A", " B", " C"]},
}
# Of every cell: seed, example, true label, prediction. One prompt of mine+permuted is too long.
ANSWERS = {
    "mine": [(0, 0, 0, 0), (0, 1, 1, 1), (0, 2, 0, 1), (0, 3, 1, 1), (1, 0, 0, 0), (1, 1, 1, 0)],
    "mine+symbols": [
        *[(0, 0, 0, 0), (0, 1, 1, 1), (0, 2, 0, 1), (0, 3, 1, 1), (1, 0, 0, 0), (1, 1, 1, 0)]
    ],
    "mine+permuted": [(0, 0, 0, 1), (0, 1, 1, 0), (0, 2, 0, 1), (1, 0, 0, 0), (1, 1, 1, 1)],
    "news": [(0, 5, 2, 2), (0, 7, 0, 0), (1, 5, 1, 1)],
    "news+symbols": [(0, 5, 2, 1), (0, 7, 0, 2), (1, 5, 1, 0)],
}
# Shares of S_wp and S_pq in six layers.
SHARES = {
    "own": ([0.6, 0.2, 0.1, 0.1, 0.1, 0.0], [0.1, 0.1, 0.1, 0.1, 0.5, 0.9]),
    "other": ([0.2, 0.1, 0.0, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1, 0.2, 0.4]),
}
# Predictions under isolation of one example that is predicted 0 otherwise, by draw.
ISOLATED = {"label": [1], "random": [0, 1]}

ASKED: dict[str, tuple[list[int], None]] = {
    "flow": ([0, 1], None),
    "isolation": ([0, 1], None),
}  # seeds, and all texts


def tables() -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Predictions, attention, saliency, isolation and prompts of all cells."""
    predictions, attention, saliency, isolation, prompts = [], [], [], [], []
    for cell, answers in ANSWERS.items():
        wp, pq = SHARES["other" if "+" in cell else "own"]
        for seed, example, label, prediction in answers:
            keys = {"model": "m", "task": cell, "seed": seed, "example": example}
            predicted = {**keys, "label": label, "prediction": prediction}
            classes = len(WORDS[cell.partition("+")[0]]["words"])
            predictions.append({**predicted, "probabilities": [1 / classes] * classes})
            attention += [
                {**keys, "layer": layer, "head": 0, "demonstration": k, "label": k}
                | {"attention_label": attended(cell, layer, prediction == k)}
                for layer in range(len(wp))
                for k in range(classes)
            ]
            prompts += [{**keys, "demonstrations": p} for p in ("fixed", "per_example")]
            for layer, (to_words, to_target) in enumerate(zip(wp, pq, strict=True)):
                flows = (to_words, to_target, 1 - to_words - to_target)
                absolute = [(example + 1) * flow for flow in flows]
                named = dict(zip(("s_wp", "s_pq", "s_ww"), absolute, strict=True))
                saliency.append({**keys, "layer": layer, **named})
            for setting, now in isolated():
                run = dict(zip(Setting._fields, setting, strict=True))
                probabilities = [1.0, 0.0] if now == 0 else [0.0, 1.0]
                isolation.append(
                    {**keys, **run, "label": label, "prediction": now}
                    | {"probabilities": probabilities, "top_tokens": [1]}
                )
    long = {"model": "m", "task": "mine+permuted", "seed": 0, "example": 3}
    prompts.append({**long, "demonstrations": "fixed", "skipped": "too long"})
    return (
        frame(predictions, PREDICTIONS),
        frame(attention, ATTENTION),
        frame(saliency, FLOW),
        frame(isolation, ISOLATION),
        frame(prompts, PROMPTS),
    )


def attended(cell: str, layer: int, told: bool) -> float:
    """Attention to a label's word: early the same to all, late the most to the one predicted.

    With symbols, the one predicted gets the least late.
    """
    most = told == ("symbols" not in cell)
    return 0.5 if layer < 4 else 0.7 if most else 0.3


def isolated() -> list[tuple[Setting, int]]:
    """The untouched run, the first two layers as above, and settings that do not count."""
    runs = [(Setting("none", "none", 0, "none", 0), 0)]
    for positions, predicted in ISOLATED.items():
        for draw, prediction in enumerate(predicted):
            runs.append((Setting("mask", positions, draw, "first", 2), prediction))
            for other in (("zero", "first", 2), ("mask", "last", 2), ("mask", "first", 1)):
                variant, side, layers = other
                runs.append((Setting(variant, positions, draw, side, layers), 1 - prediction))
    return runs


def summary(
    of: Sequence[pl.DataFrame] = (),
    words: Words = WORDS,
    asked: Mapping[str, tuple[Sequence[int], int | None]] = ASKED,
    confidence: float = 0.9,
) -> pl.DataFrame:
    """The summary of all cells, or of other tables."""
    return summarize_label_words(*(of or tables()), words, "per_example", "mask", asked, confidence)
