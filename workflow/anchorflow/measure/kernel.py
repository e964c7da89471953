"""In-context learning as kernel regression ([K]): attention as weights of labels.

With many demonstrations in the prompt, the target's attention to each of them is taken as its
kernel weight, in every layer and head. The stage also measures where on the demonstrations
attention lands, how it correlates with the similarity of the texts according to the model itself,
the keys and values around the label words, and with fewer demonstrations, what the model and its
heads' kernel regressions predict.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.arrays import Array
from anchorflow.config.cells import task_of
from anchorflow.measure.attention import (
    DemonstrationAttention,
    by_demonstration,
    label_predictions,
    prediction_frame,
    rows_and_logits,
)
from anchorflow.measure.segments import (
    PLACES,
    attention_by_place,
    segment_matrix,
    segment_names,
    segment_widths,
)
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.language_model import target_label_logits, target_logits
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.prepare.kernel_samples import TextsApart
from anchorflow.prepare.prompts import taken_together
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema, keyed
from anchorflow.schemas.kernel import (
    COUNTS,
    KERNEL,
    KERNEL_ATTENTION,
    PLACED,
    SEGMENTED,
    SIMILARITY,
    STATES,
)
from anchorflow.schemas.predictions import PREDICTIONS

WEIGHTS = ("max", "label", "mean")


SCHEMAS = {
    "attention": KERNEL_ATTENTION,
    "predictions": PREDICTIONS,
    "kernel": KERNEL,
    "segments": SEGMENTED,
    "places": PLACED,
    "similarity": SIMILARITY,
    "states": STATES,
    "counts": COUNTS,
}


class KernelTables(NamedTuple):
    """The tables that the stage writes, with columns as in ``SCHEMAS``."""

    attention: pl.DataFrame
    predictions: pl.DataFrame
    kernel: pl.DataFrame
    segments: pl.DataFrame
    places: pl.DataFrame
    similarity: pl.DataFrame
    states: pl.DataFrame
    counts: pl.DataFrame


def kernel_estimates(weights: Array, labels: Sequence[int], classes: int) -> Array:
    """ŷ = Σ_i a_i e(y_i) / Σ_i a_i.

    Parameters
    ----------
    weights : [..., N]
        a_i ≥ 0 for each demonstration.
    labels : sequence of int, N
        y_i.

    Returns
    -------
    Array
        [..., C]; NaN where all weights are 0.

    Source: Han et al. 2025, eq. 6, with attention as weights in §5.2.
    """
    total = weights.sum(-1, keepdims=True)
    sums = weights @ np.eye(classes)[np.asarray(labels)]
    estimates: Array = np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0)
    return estimates


def kernel_predictions(estimates: Array) -> NDArray[np.int64]:
    """The label of the largest estimate, [...]; -1 where estimates are undefined."""
    unknown = np.isnan(estimates).any(-1)
    return np.where(unknown, -1, np.nan_to_num(estimates).argmax(-1))


def correlations(weights: Array, similarity: Array) -> Array:
    """Pearson's correlation over the last axis.

    NaN if one of the inputs is constant, and for fewer than three values.
    """
    if similarity.shape[-1] < 3:
        return np.full(np.broadcast_shapes(weights.shape, similarity.shape)[:-1], np.nan)
    a = weights - weights.mean(-1, keepdims=True)
    b = similarity - similarity.mean(-1, keepdims=True)
    scale = np.sqrt((a**2).sum(-1) * (b**2).sum(-1))
    covariance = (a * b).sum(-1)
    varies = (np.ptp(weights, -1) > 0) & (np.ptp(similarity, -1) > 0) & (scale > 0)
    r: Array = np.divide(covariance, scale, out=np.full(scale.shape, np.nan), where=varies)
    return r


def cost(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """Every text once, both ways alone with those shown, and after half as many, and again half."""
    rounds = prompts.shown / max(1, prompts.labels * prompts.own)
    fewer = int(max(0, rounds - 1)).bit_length()
    return Cost(prompts.once + 2 * (prompts.asked + prompts.shown) + fewer * prompts.asked)


@torch.no_grad()
def measure_kernel(
    model: PreTrainedModel,
    tokenizer: Tokenizer,
    prompts: pl.DataFrame,
    smaller: Mapping[int, pl.DataFrame],
    apart: TextsApart,
    offsets: Sequence[int],
    batch_tokens: int,
    examples: Collection[int] | None = None,
) -> KernelTables:
    """Run all measurements of the stage for one model, task, and seed.

    Parameters
    ----------
    prompts : DataFrame
        ``PROMPTS``, all with the same demonstrations, in rounds of one per label.
    smaller : number of demonstrations per label to DataFrame
        The same prompts with only the first of these demonstrations.
    apart : TextsApart
        ``PROMPTS`` of the test texts and of the demonstrations' texts, each by itself.
    offsets : sequence of int
        Positions relative to each label word whose keys and values are recorded.
    batch_tokens : int
        Upper bound on query tokens per batch; does not affect the results.
    examples : collection of int, optional
        Measure only these test texts; does not affect their results or those of demonstrations.

    Raises
    ------
    InputError
        If attention is missing, or logits are not finite.
    """
    parts = {name: [pl.DataFrame(schema=frame_schema(schema))] for name, schema in SCHEMAS.items()}
    chosen = runnable(taken_together(prompts), "kernel")
    if chosen.is_empty():
        return KernelTables(**{name: frames[0] for name, frames in parts.items()})
    keys = chosen.select("model", "task", "seed").row(0, named=True)
    prefix = compute_prefix(model, shared_token_ids(chosen))
    budget = Budget(batch_tokens)
    (tests, demonstrations), (queries, shown) = apart
    similarity, _ = text_similarity(model, among(tests, examples), demonstrations, budget)
    # After a text alone the likeliest token may be the same for all, such as a newline.
    in_template, next_tokens = text_similarity(model, among(queries, examples), shown, budget)
    measured = among(chosen, examples)
    of_example = {row["example"]: row for row in measured.iter_rows(named=True)}

    def measure(batch: Batch) -> dict[str, pl.DataFrame]:
        rows, logits = rows_and_logits(model, batch, prefix)
        attention = by_demonstration(rows, batch)
        similar = {
            "": np.stack([similarity[example] for example in batch.examples]),
            "_in_template": np.stack([in_template[example] for example in batch.examples]),
        }
        own = [of_example[example] for example in batch.examples]
        return {
            "predictions": prediction_frame(batch, logits, tokenizer, keys),
            "attention": _attention_frame(batch, attention, keys),
            "kernel": _kernel_frame(batch, attention, similar, keys),
            "segments": _segments_frame(batch, rows, own, keys),
            "places": _places_frame(batch, rows, keys),
            "similarity": _similarity_frame(batch, similar, keys),
        }

    with tqdm(total=len(measured), desc="attention", unit="example", mininterval=1) as progress:
        for batch, frames in run_batches(measured, budget, model.device, measure, prefix.tokens):
            for name, frame in frames.items():
                parts[name].append(frame)
            progress.update(batch.size)
    prompt = runnable(prompts, "kernel").row(0, named=True)  # probes tell all labels apart
    parts["states"] += _states_frames(prompt, prefix, offsets, next_tokens, keys)
    for count, fewer in smaller.items():
        predicted = predict_with_first(
            model, prefix, prompt["token_ids"], taken_together(fewer), budget, keys, examples
        )
        per_label = predicted.with_columns(pl.lit(count).alias("demonstrations_per_label"))
        parts["counts"].append(keyed(per_label, keys, COUNTS))
    order = ["example", "demonstrations_per_label", "layer", "head", "demonstration", "offset"]
    tables = {}
    for name, rows in parts.items():
        by = [column for column in order if column in rows[0].columns]
        tables[name] = pl.concat(rows).sort(by, maintain_order=True)
    return KernelTables(**tables)


def text_similarity(
    model: PreTrainedModel, tests: pl.DataFrame, demonstrations: pl.DataFrame, budget: Budget
) -> tuple[dict[int, Array], list[int]]:
    """Similarity of the next-token distributions after two texts: Σ_o P(o|x) P(o|x_i).

    The paper has the texts alone, without demonstrations and without the template.

    Parameters
    ----------
    tests, demonstrations : DataFrame
        ``PROMPTS`` without demonstrations.

    Returns
    -------
    tuple
        For each test text that fits the context, its similarity to every demonstration [N]; and
        the most likely next token of each demonstration.

    Source: Han et al. 2025, §5.3 and eq. 9.
    """

    def next_token(batch: Batch) -> Tensor:
        return target_logits(model, batch).softmax(-1)

    shown: dict[int, Tensor] = {}
    for batch, probabilities in run_batches(demonstrations, budget, model.device, next_token):
        shown |= dict(zip(batch.examples, probabilities, strict=True))
    matrix = torch.stack([shown[number] for number in sorted(shown)])  # [N, vocabulary]

    def likeness(batch: Batch) -> Array:
        products: Array = (next_token(batch) @ matrix.T).double().cpu().numpy()
        return products

    similar: dict[int, Array] = {}
    for batch, products in run_batches(runnable(tests, "alone"), budget, model.device, likeness):
        similar |= dict(zip(batch.examples, products, strict=True))
    return similar, matrix.argmax(-1).tolist()


def _attention_frame(
    batch: Batch, attention: DemonstrationAttention, keys: Mapping[str, str | int]
) -> pl.DataFrame:
    layer, example, head = np.indices(attention.label.shape[:3])
    frame = pl.DataFrame(
        {
            "example": np.array(batch.examples)[example.ravel()],
            "layer": layer.ravel(),
            "head": head.ravel(),
            "attention_max": attention.largest.flatten(0, 2).numpy(),
            "attention_label": attention.label.flatten(0, 2).numpy(),
            "attention_mean": attention.mean.flatten(0, 2).numpy(),
        }
    )
    return keyed(frame, keys, KERNEL_ATTENTION)


def _of_kinds(attention: DemonstrationAttention) -> dict[str, Array]:
    kinds = {"max": attention.largest, "label": attention.label, "mean": attention.mean}
    return {name: kinds[name].double().numpy() for name in WEIGHTS}


def _permuted(labels: Sequence[int], example: int, keys: Mapping[str, str | int]) -> list[int]:
    """The demonstrations' labels in a random order, which gives each weight to another one."""
    random = generator(int(keys["seed"]), task_of(str(keys["task"])), "permuted", example)
    order: list[int] = random.permutation(labels).tolist()
    return order


def _kernel_frame(
    batch: Batch,
    attention: DemonstrationAttention,
    similarities: Mapping[str, Array],
    keys: Mapping[str, str | int],
) -> pl.DataFrame:
    labels, classes = batch.demonstration_labels[0].tolist(), len(batch.label_tokens)
    parts = []
    for name, weights in _of_kinds(attention).items():
        layer, example, head = np.indices(weights.shape[:3])
        parts.append(
            pl.DataFrame(
                {
                    "example": np.array(batch.examples)[example.ravel()],
                    "layer": layer.ravel(),
                    "head": head.ravel(),
                    "weights": [name] * layer.size,
                    "prediction": kernel_predictions(
                        kernel_estimates(weights, labels, classes)
                    ).ravel(),
                    **{
                        f"correlation{kind}": correlations(weights, of[None, :, None]).ravel()
                        for kind, of in similarities.items()
                    },
                    "permuted": _with_permuted_labels(
                        weights, batch.examples, labels, classes, keys
                    ).ravel(),
                }
            )
        )
    frame = pl.concat(parts).with_columns(
        pl.col("prediction", "permuted").replace(-1, None),
        *(pl.col(f"correlation{kind}").fill_nan(None) for kind in similarities),
    )
    return keyed(frame, keys, KERNEL)


def _with_permuted_labels(
    weights: Array,
    examples: Sequence[int],
    labels: Sequence[int],
    classes: int,
    keys: Mapping[str, str | int],
) -> NDArray[np.int64]:
    """Predictions of kernel regressions with each example's labels permuted, [L, B, H]."""
    others = [_permuted(labels, example, keys) for example in examples]
    of_examples = [
        kernel_predictions(kernel_estimates(of_example, given, classes))
        for of_example, given in zip(weights.swapaxes(0, 1), others, strict=True)
    ]
    return np.stack(of_examples, 1)


def told_by_heads(rows: Tensor, batch: Batch) -> pl.Series:
    """What each head's kernel regression predicts, from its largest attention.

    Parameters
    ----------
    rows : [L, B, H, T]
        A_l(q, :) of each example; all have the same demonstrations.

    Returns
    -------
    Series
        ``heads``: of each example, the label of every head in order of layer and head; null where
        all its weights are 0.
    """
    weights = by_demonstration(rows, batch).largest.double().numpy()
    labels, classes = batch.demonstration_labels[0].tolist(), len(batch.label_tokens)
    return _by_example("heads", kernel_predictions(kernel_estimates(weights, labels, classes)))


def _by_example(name: str, predictions: NDArray[np.int64]) -> pl.Series:
    """Predictions of all heads [L, B, H] as one list per example, null where undefined."""
    heads = predictions.swapaxes(0, 1).reshape(predictions.shape[1], -1).tolist()
    return pl.Series(name, [[None if told < 0 else told for told in own] for own in heads])


def _segments_frame(
    batch: Batch, rows: Tensor, prompts: list[dict[str, Any]], keys: Mapping[str, str | int]
) -> pl.DataFrame:
    matrix, widths = segment_matrix(prompts, rows.shape[-1]), segment_widths(prompts)
    total = torch.einsum("lbht,bst->lbhs", rows, matrix).numpy()
    layer, example, head, segment = np.indices(total.shape)
    frame = pl.DataFrame(
        {
            "example": np.array(batch.examples)[example.ravel()],
            "layer": layer.ravel(),
            "head": head.ravel(),
            "segment": np.array(segment_names(prompts[0]["field_names"]))[segment.ravel()],
            "attention": total.ravel(),
            "tokens": matrix.sum(-1).numpy()[example.ravel(), segment.ravel()],
            "width": widths[example.ravel(), segment.ravel()],
        }
    )
    return keyed(frame, keys, SEGMENTED)


def _places_frame(batch: Batch, rows: Tensor, keys: Mapping[str, str | int]) -> pl.DataFrame:
    starts, ends = batch.demonstration_starts.cpu(), batch.demonstration_ends.cpu()
    of_heads = rows.mean(2, keepdim=True)
    mean = attention_by_place(of_heads, starts, ends)[:, :, 0].numpy()  # [L, B, PLACES]
    layer, example, place = np.indices(mean.shape)
    frame = pl.DataFrame(
        {
            "example": np.array(batch.examples)[example.ravel()],
            "layer": layer.ravel(),
            "place": (place.ravel() + 0.5) / PLACES,
            "attention": mean.ravel(),
        }
    )
    return keyed(frame, keys, PLACED)


def _similarity_frame(
    batch: Batch, similarities: Mapping[str, Array], keys: Mapping[str, str | int]
) -> pl.DataFrame:
    example, demonstration = np.indices(batch.demonstration_labels.shape)
    frame = pl.DataFrame(
        {
            "example": np.array(batch.examples)[example.ravel()],
            "demonstration": demonstration.ravel(),
            "label": batch.demonstration_labels.cpu().numpy().ravel(),
            **{f"similarity{kind}": of.ravel() for kind, of in similarities.items()},
        }
    )
    defined = (pl.col(f"similarity{kind}").fill_nan(None) for kind in similarities)
    return keyed(frame.with_columns(*defined), keys, SIMILARITY)


def _states_frames(
    prompt: Mapping[str, list[int]],
    prefix: Prefix,
    offsets: Sequence[int],
    next_tokens: Sequence[int],
    keys: Mapping[str, str | int],
) -> Iterator[pl.DataFrame]:
    """Keys and values around each label word, within the shared prefix."""
    shared = [
        (demonstration, offset, position + offset)
        for demonstration, position in enumerate(prompt["label_positions"])
        for offset in offsets
        if 0 <= position + offset < prefix.tokens
    ]
    if not shared:
        return
    demonstrations, shifts, positions = (list(column) for column in zip(*shared, strict=True))
    for layer, kept in prefix.layers.items():
        for head in range(kept.key.shape[1]):
            frame = pl.DataFrame(
                {
                    "demonstration": demonstrations,
                    "offset": shifts,
                    "label": [prompt["demonstration_labels"][d] for d in demonstrations],
                    "next_token": [next_tokens[d] for d in demonstrations],
                    "key": kept.key[0, head, positions].float().cpu().numpy(),
                    "value": kept.value[0, head, positions].float().cpu().numpy(),
                }
            )
            yield keyed(frame, {**keys, "layer": layer, "head": head}, STATES)


@torch.no_grad()
def predict_with_first(
    model: PreTrainedModel,
    whole: Prefix,
    whole_ids: Sequence[int],
    prompts: pl.DataFrame,
    budget: Budget,
    keys: Mapping[str, str | int],
    examples: Collection[int] | None = None,
) -> pl.DataFrame:
    """Predictions with fewer demonstrations, whose keys and values are taken from ``whole``.

    What every head's kernel regression predicts comes from the same run, for the largest attention
    to a token of each demonstration.

    Parameters
    ----------
    whole, whole_ids
        The prefix of all demonstrations, and the token ids of a prompt that begins with it.
    prompts : DataFrame
        ``PROMPTS`` with only the first of the demonstrations.
    keys : mapping
        ``task`` and ``seed``, for the random draws by which labels are permuted.
    examples : collection of int, optional
        Predict only these test texts.

    Returns
    -------
    DataFrame
        Columns ``example``, ``label``, ``prediction``, ``probabilities``, ``heads``, and
        ``heads_permuted``.
    """
    chosen = runnable(prompts, "kernel")
    alike = [a == b for a, b in zip(shared_token_ids(chosen), whole_ids, strict=False)]
    prefix = whole.first(([*alike, False]).index(False))

    schema = frame_schema(COUNTS)
    columns = ("example", "label", "prediction", "probabilities", "heads", "heads_permuted")
    parts = [pl.DataFrame(schema={name: schema[name] for name in columns})]

    def measure(batch: Batch) -> pl.DataFrame:
        rows, scores = rows_and_logits(model, batch, prefix, at_target=target_label_logits)
        weights = by_demonstration(rows, batch).largest.double().numpy()
        labels, classes = batch.demonstration_labels[0].tolist(), len(batch.label_tokens)
        permuted = _with_permuted_labels(weights, batch.examples, labels, classes, keys)
        return label_predictions(batch, scores).with_columns(
            told_by_heads(rows, batch), _by_example("heads_permuted", permuted)
        )

    measured = among(chosen, examples)
    for _, rows in run_batches(measured, budget, model.device, measure, prefix.tokens):
        parts.append(rows.cast(parts[0].schema))
    return pl.concat(parts)
