"""Predictions under interventions on attention, for numbers worked out by hand."""

from math import log

import polars as pl

from anchorflow.analyses.cutoff import CUTOFF
from anchorflow.analyses.faithfulness import FAITHFULNESS
from anchorflow.analyses.isolation import ISOLATION
from anchorflow.analyses.knockout import KNOCKOUT
from anchorflow.analyses.transplant import TRANSPLANT
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.prompts import PROMPTS
from constructed.rows import frame

# (seed, example, positions, draw, side): true label, prediction, probabilities, that of all label
# words in the vocabulary, and the likeliest tokens, of which 1 and 6 begin label words.
KNOWN = {
    (0, 3, "none", 0, "none"): (1, 1, [0.25, 0.75], 0.75, True, [1, 2, 3, 4, 5]),
    (0, 3, "label", 0, "first"): (1, 0, [0.5, 0.5], 0.25, False, [3, 4, 5, 6, 7]),
    (0, 3, "random", 0, "first"): (1, 1, [0.25, 0.75], 0.75, True, [1, 2, 3, 4, 5]),
    (0, 3, "random", 1, "first"): (1, 0, [1.0, 0.0], 0.5, True, [6, 7, 8, 9, 10]),
    (0, 3, "hidden", 0, "none"): (1, 0, [1.0, 0.0], 0.5, True, [1, 2, 3, 4, 5]),
    (1, 4, "none", 0, "none"): (0, 1, [0.5, 0.5], 0.5, True, [1, 2, 3, 4, 5]),
    (1, 4, "label", 0, "first"): (0, 1, [0.5, 0.5], 0.25, False, [5, 4, 3, 2, 1]),
    (1, 4, "random", 0, "first"): (0, 1, [0.5, 0.5], 0.5, True, [1, 2, 3, 4, 5]),
    (1, 4, "random", 1, "first"): (0, 0, [0.5, 0.5], 0.5, True, [1, 2, 3, 4, 9]),
    (1, 4, "hidden", 0, "none"): (0, 0, [1.0, 0.0], 0.5, True, [1, 2, 3, 4, 5]),
}


def isolation(task: str = "news") -> pl.DataFrame:
    """What is known, as the table ``isolation``."""
    rows = []
    for (seed, example, positions, draw, side), values in KNOWN.items():
        variant, layers = ("none", 0) if side == "none" else ("mask", 2)
        setting = (variant, positions, draw, side, layers)
        row = ("tiny", task, seed, example, *setting, *values)
        rows.append(dict(zip(ISOLATION.names, row, strict=True)))
    return frame(rows[::-1], ISOLATION)


def isolation_prompts() -> pl.DataFrame:
    """Prompts of the examples above, and of a task whose prompts are too long."""
    run = [(task, seed, None) for task in ("news", "reviews") for seed in (0, 1)]
    rows = [
        {"task": task, "seed": seed, "demonstrations": "fixed", "skipped": reason}
        for task, seed, reason in [*run, ("poems", 0, "99 tokens exceed the context of 16")]
    ]
    return frame(rows, PROMPTS)


Change = tuple[str, bool, int]  # edges, control, draw


def knockout(
    probabilities: dict[Change, list[float]],
    plain: list[float],
    band: tuple[str, int, int] = ("last", 2, 1),
    seeds: int = 2,
    model: str = "tiny",
    task: str = "news",
) -> pl.DataFrame:
    """The table in which the true label 1 of example i has probability i of each list.

    The unmodified run has those of ``plain``.
    """
    rows = []
    runs = {("none", False, 0): plain, **probabilities}
    for (edges, control, draw), values in runs.items():
        where = ("none", -1, 0) if edges == "none" else band
        for seed in range(seeds):
            for example, value in enumerate(values):
                rows.append(
                    {"seed": seed, "example": example, "edges": edges, "control": control}
                    | {"draw": draw, **dict(zip(("band", "layer", "layers"), where, strict=True))}
                    | {"cut": 3 * where[2], "label": 1, "prediction": int(value >= 0.5)}
                    | {"probabilities": [1 - value, value], "label_mass": value}
                    | {"in_labels": value >= 0.5, "loss": -log(value)}
                    | {"top_tokens": [1, 2] if value >= 0.5 else [2, 3]}
                )
    return frame(rows, KNOCKOUT, model=model, task=task)


def prompts(tasks: tuple[str, ...] = ("news",)) -> pl.DataFrame:
    """Prompts of these tasks, of which the summary takes the names alone."""
    rows = [{"task": task, "seed": 0, "demonstrations": "fixed"} for task in tasks]
    return frame(rows, PROMPTS)


def faithfulness(
    told: dict[str, list[float]], examples: int = 2, seeds: int = 2, control: bool = False
) -> pl.DataFrame:
    """The table in which estimates of each layer are those of ``told``, in all prompts."""
    rows = [
        {"seed": seed, "example": example, "edges": "label_to_target", "control": control}
        | {"layer": layer, **{name: values[layer] for name, values in told.items()}}
        for seed in range(seeds)
        for example in range(examples)
        for layer in range(3)
    ]
    return frame(rows, FAITHFULNESS)


def cuts(changes: list[float], examples: int = 2, seeds: int = 2) -> pl.DataFrame:
    """The table ``knockout`` in which cutting in each layer changes the loss so."""
    parts = []
    for layer, change in enumerate(changes):
        table = knockout(
            {("label_to_target", False, 0): [0.5] * examples},
            [0.5] * examples,
            ("single", layer, 1),
            seeds,
        )
        cut = pl.col("edges") != "none"
        table = table.with_columns(loss=pl.col("loss") + pl.when(cut).then(change).otherwise(0))
        parts.append(table if layer == 0 else table.filter(cut))
    return pl.concat(parts).cast(frame_schema(KNOCKOUT))


def cutoff(
    predicted: dict[str, list[list[int]]], plain: list[int], seeds: int = 2, task: str = "news"
) -> pl.DataFrame:
    """The table in which text i is predicted so from each layer on; the true label is 1."""
    rows = []
    for sees, of_layers in predicted.items():
        for layer, predictions in enumerate([*of_layers, plain]):
            rows += [
                {"seed": seed, "example": example, "sees": sees, "layer": layer, "label": 1}
                | {"prediction": prediction}
                | {"probabilities": [1.0 - prediction, float(prediction)], "label_mass": 0.5}
                | {"in_labels": layer > 0 or example > 1, "top_tokens": [1, 2 + prediction]}
                for seed in range(seeds)
                for example, prediction in enumerate(predictions)
            ]
    return frame(rows, CUTOFF, task=task)


Taken = tuple[str, str, int]  # what, places, draw


def transplant(
    after: dict[Taken, list[float]],
    own: list[float],
    donor: list[float],
    band: tuple[str, int, int] = ("all", 0, 3),
    seeds: int = 2,
    model: str = "tiny",
    task: str = "news",
    name_of_donor: str = "permuted",
) -> pl.DataFrame:
    """The table in which label 1 of example i has probability i of each list.

    All draws have the same donor.
    """
    draws = {draw for _, _, draw in after} or {0}
    runs = {
        ("none", "none", "none", 0): own,
        **{(name_of_donor, "prompt", "none", draw): donor for draw in draws},
        **{(name_of_donor, *taken): values for taken, values in after.items()},
    }
    rows = []
    for (name, what, places, draw), values in runs.items():
        where = ("none", -1, 0) if places == "none" else band
        rows += [
            {"seed": seed, "example": example, "donor": name, "what": what, "places": places}
            | {"draw": draw, **dict(zip(("side", "layer", "layers"), where, strict=True))}
            | {"tokens": 3, "label": 0, "prediction": int(value > 0.5)}
            | {"probabilities": [1 - value, value], "label_mass": value}
            | {"in_labels": value < 0.75}
            for seed in range(seeds)
            for example, value in enumerate(values)
        ]
    return frame(rows, TRANSPLANT, model=model, task=task)
