"""Agreement of the model with kernel regression on a sentence encoder's similarity ([K] §5.5)."""

import numpy as np
import polars as pl

from anchorflow.analyses.regressors.summarize import encoder_prediction, vectors_of
from anchorflow.arrays import Array
from anchorflow.claims.claim import Run


def encoder_agreement(run: Run, predictions: pl.DataFrame, per_label: int | None) -> Array:
    """1 where the encoder's kernel regression and the model agree in one seed, [examples].

    Demonstrations are the first ``per_label`` of each label in the kernel prompt, or all.
    """
    ordered = predictions.sort("example")
    samples = run.rows("kernel_samples").filter(pl.col("seed") == ordered["seed"][0])
    vectors = vectors_of(run.rows("embeddings"), samples)
    first, classes = samples.row(0, named=True), len(predictions["probabilities"][0])
    some = slice(None) if per_label is None else slice(per_label * classes)
    queries = np.stack([vectors["test", row] for row in ordered["example"]])
    demonstrations = np.stack([vectors["train", row] for row in first["demonstration_rows"][some]])
    groups = run.by_seed("kernel_predictions")[ordered["seed"][0]]["token_groups"][0]
    labels = np.array(groups)[first["demonstration_labels"][some]]  # merged like those of the heads
    predicted = encoder_prediction(queries, demonstrations, labels, run.temperature)
    agreement: Array = (predicted == ordered["prediction"].to_numpy()).astype(float)
    return agreement
