"""Predictions with the test text's nearest training texts as demonstrations.

As kernel regression, in-context learning averages the demonstrations' labels, weighted by the
similarity of their texts to the test text. Similar demonstrations should therefore help ([K] §4.2),
as Liu et al. 2022 found (KATE). Random demonstrations are those of the fixed prompts, which are
not run again.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.arrays import Array
from anchorflow.config.errors import InputError
from anchorflow.measure.attention import label_predictions
from anchorflow.model.attention_function import intervene
from anchorflow.model.batches import Batch, Budget, run_batches, runnable
from anchorflow.model.language_model import target_logits
from anchorflow.model.prefix import KeepKeys
from anchorflow.model.word_scores import FIRST_TOKEN, Ended, Words, leave_room
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.retrieval import RETRIEVAL
from anchorflow.schemas.samples import SAMPLES

log = logging.getLogger(__name__)

RANDOM = "random"
FIXED = "fixed"  # the protocol of the prompts with random demonstrations


def nearest(
    similarity: Array, labels: np.ndarray, counts: Mapping[int, int], per_label: bool
) -> list[int]:
    """Choose the training texts nearest to one test text, the most similar last.

    Parameters
    ----------
    similarity : [texts]
        Similarity of every training text to the test text; NaN for excluded texts.
    labels : [texts], int
    counts : mapping
        Number of demonstrations of each label.
    per_label : bool
        Whether each label gets its number, or only the total counts. There are fewer
        demonstrations if there are too few texts.

    Returns
    -------
    list of int
        Indices into ``similarity``; of equally similar texts, the first counts as the nearest.
    """
    order = np.argsort(-similarity, kind="stable")  # NaN last
    order = order[~np.isnan(similarity[order])]
    if per_label:
        places = [order[labels[order] == label][:count] for label, count in counts.items()]
        order = order[np.isin(order, np.concatenate(places))]
    chosen: list[int] = order[: sum(counts.values())][::-1].tolist()
    return chosen


def choose_demonstrations(
    texts: pl.DataFrame,
    fixed: pl.DataFrame,
    embeddings: pl.DataFrame,
    choices: Sequence[str],
    labels: Sequence[str],
) -> pl.DataFrame:
    """The test texts of one task and seed with their nearest training texts as demonstrations.

    Training texts identical to the test text are excluded.

    Parameters
    ----------
    texts, embeddings : DataFrame
        ``TEXTS`` and ``EMBEDDINGS`` of the task.
    fixed : DataFrame
        ``SAMPLES`` of the task and seed with fixed demonstrations; equally many are retrieved.
    choices : sequence of str
        ``nearest`` or ``nearest_per_label``.
    labels : sequence of str
        Label words, in label order.

    Returns
    -------
    DataFrame
        Columns of ``SAMPLES``, one row per (test text, choice); the column ``demonstrations``
        holds the choice.

    Raises
    ------
    InputError
        If too few training texts differ from the test text.
    """
    train = texts.filter(pl.col("split") == "train").sort("row")
    train_labels = train["label"].to_numpy()
    of_train, of_test = _vectors(embeddings, "train"), _vectors(embeddings, "test")
    rows = []
    for sample in fixed.iter_rows(named=True):
        similarity = _cosine(of_train, of_test[sample["example"]])
        similarity[(train["text"] == sample["text"]).to_numpy()] = np.nan
        counts = Counter(sample["demonstration_labels"])
        for choice in choices:
            per_label = choice == "nearest_per_label"
            places = nearest(similarity, train_labels, counts, per_label)
            found = train_labels[places].tolist()
            _require(sample, Counter(found), labels, per_label)
            rows.append(
                {
                    **sample,
                    "demonstrations": choice,
                    "demonstration_rows": train["row"].gather(places).to_list(),
                    "demonstration_texts": train["text"].gather(places).to_list(),
                    "demonstration_labels": found,
                }
            )
    return pl.DataFrame(rows, schema=frame_schema(SAMPLES))


def _require(
    sample: Mapping[str, Any], found: Counter[int], labels: Sequence[str], per_label: bool
) -> None:
    """Raise InputError if fewer demonstrations were found than the fixed prompts have."""
    wanted = Counter(sample["demonstration_labels"])
    if found.total() == wanted.total():
        return
    short = next(label for label, count in wanted.items() if found[label] < count)
    which = f' of the label "{labels[short].strip()}"' if per_label else ""
    raise InputError(
        f"tasks.{sample['task']}.train: there are too few training texts{which} that differ from "
        f"test text {sample['example']} for a prompt of {wanted.total()} demonstrations; add "
        "texts, or lower demonstrations_per_label."
    )


def _vectors(embeddings: pl.DataFrame, split: str) -> Array:
    """Embeddings of one split, [texts, dimensions], by row."""
    rows = embeddings.filter(pl.col("split") == split).sort("row")["embedding"]
    vectors: Array = rows.explode().to_numpy().reshape(len(rows), -1).astype(np.float64)
    return vectors


def _cosine(vectors: Array, vector: Array) -> Array:
    """Cosine of unit vectors, rounded to float32 precision so that ties stay ties."""
    cosine: Array = np.round(vectors @ vector, 6)
    return cosine


def describe_demonstrations(samples: pl.DataFrame, embeddings: pl.DataFrame) -> pl.DataFrame:
    """Similarity of the demonstrations to their test text, and the share with its label.

    Parameters
    ----------
    samples, embeddings : DataFrame
        ``SAMPLES`` and ``EMBEDDINGS`` of one task.

    Returns
    -------
    DataFrame
        Columns ``choice``, ``example``, ``similarity``, and ``same_label``, one row per sample.
    """
    of_train, of_test = _vectors(embeddings, "train"), _vectors(embeddings, "test")
    similarity = [
        _cosine(of_train[rows], of_test[example]).mean()
        for example, rows in samples.select("example", "demonstration_rows").iter_rows()
    ]
    same = [
        np.equal(shown, label).mean()
        for label, shown in samples.select("label", "demonstration_labels").iter_rows()
    ]
    return samples.select(
        pl.col("demonstrations").replace(FIXED, RANDOM).alias("choice"),
        "example",
        pl.Series("similarity", similarity, dtype=pl.Float64),
        pl.Series("same_label", same, dtype=pl.Float64),
    )


def measure_retrieval(
    model: PreTrainedModel,
    prompts: pl.DataFrame,
    random: pl.DataFrame,
    shown: pl.DataFrame,
    batch_tokens: int,
    scoring: Mapping[str, Any] = FIRST_TOKEN,
) -> pl.DataFrame:
    """Predictions for all runnable prompts with nearest demonstrations, and with random ones.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS`` of one model, task, and seed; ``demonstrations`` holds the choice.
    random : DataFrame
        ``PREDICTIONS`` of the same cell, with fixed demonstrations.
    shown : DataFrame
        From :func:`describe_demonstrations`.
    batch_tokens : int
        Upper bound on tokens per batch; does not affect the results.
    scoring : mapping
        What label probabilities are of, see :meth:`Words.scored`; as it was for ``random``.

    Returns
    -------
    DataFrame
        Columns of ``RETRIEVAL``, ordered by example, random first.

    Raises
    ------
    InputError
        If a logit is not finite.
    """
    if prompts.is_empty():
        return pl.DataFrame(schema=frame_schema(RETRIEVAL))
    choices = prompts["demonstrations"].unique(maintain_order=True).to_list()
    words = Words.scored(prompts, scoring)
    prompts = leave_room(prompts, words)
    run = prompts.filter(pl.col("skipped").is_null())
    if len(run) < len(prompts):
        log.warning(
            "%d of %d prompts with nearest demonstrations are skipped: they exceed the model's "
            "context.",
            len(prompts) - len(run),
            len(prompts),
        )
    parts = [
        random.select(
            pl.lit(RANDOM).alias("choice"), "example", "label", "prediction", "probabilities"
        )
    ]

    def measure(batch: Batch) -> pl.DataFrame:
        if words is None:
            return label_predictions(batch, target_logits(model, batch))
        kept = KeepKeys()
        with intervene(kept):
            logits = target_logits(model, batch)
        scores = words.scores(model, Ended.batch(model, batch, kept), logits)
        return label_predictions(batch, logits, scores)

    budget = Budget(batch_tokens)
    with tqdm(total=len(run), desc="retrieval", unit="prompt", mininterval=1) as progress:
        for choice in choices:
            chosen_prompts = runnable(prompts, choice)
            for batch, rows in run_batches(chosen_prompts, budget, model.device, measure):
                chosen = rows.select(pl.lit(choice).alias("choice"), pl.all())
                parts.append(chosen.cast(parts[0].schema))
                progress.update(batch.size)
    order = {choice: place for place, choice in enumerate([RANDOM, *choices])}
    ordered = (
        pl.concat(parts)
        .join(shown, on=["choice", "example"], how="left")
        .sort("example", pl.col("choice").replace_strict(order, return_dtype=pl.Int32))
    )
    return keyed(ordered, prompts.select("model", "task", "seed").row(0, named=True), RETRIEVAL)
