"""Agreement of the model with kernel regression on a sentence encoder's similarity ([K] §5.5)."""

import numpy as np
import polars as pl

from anchorflow.arrays import Array
from anchorflow.summarize.claims._claim import Run
from anchorflow.summarize.regressors import encoder_prediction, vectors_of


def encoder_agreement(run: Run, predictions: pl.DataFrame, per_label: int | None) -> Array:
    """1 where the encoder's kernel regression predicts what the model predicts, [examples].

    Parameters
    ----------
    predictions : DataFrame
        The model's, of one seed; rows are used in the order of examples.
    per_label : int, optional
        Demonstrations of each label, the first ones of the kernel prompt; by default, all.
    """
    ordered = predictions.sort("example")
    samples = run.rows("kernel_samples").filter(pl.col("seed") == ordered["seed"][0])
    vectors = vectors_of(run.rows("embeddings"), samples)
    first, classes = samples.row(0, named=True), len(predictions["probabilities"][0])
    some = slice(None) if per_label is None else slice(per_label * classes)
    queries = np.stack([vectors["test", row] for row in ordered["example"]])
    shown = np.stack([vectors["train", row] for row in first["demonstration_rows"][some]])
    groups = run.by_seed("kernel_predictions")[ordered["seed"][0]]["token_groups"][0]
    labels = np.array(groups)[first["demonstration_labels"][some]]  # as the heads' are
    told = encoder_prediction(queries, shown, labels, run.temperature)
    agreement: Array = (told == ordered["prediction"].to_numpy()).astype(float)
    return agreement
