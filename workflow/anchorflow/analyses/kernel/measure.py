"""In-context learning as kernel regression ([K]): attention as weights of labels.

With many demonstrations in the prompt, the target's attention to each of them is its kernel weight,
in every layer and head. The analysis also measures where on the demonstrations attention lands, how
attention correlates with the similarity of the texts according to the model itself, the keys and
values around the label words, and the predictions of the model and of kernel regression with fewer
demonstrations.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedModel

from anchorflow.analyses.kernel import (
    COUNTS,
    KERNEL,
    KERNEL_ATTENTION,
    PLACED,
    SEGMENTED,
    SIMILARITY,
    STATES,
)
from anchorflow.analyses.kernel.samples import TextsApart, build_kernel_prompts
from anchorflow.analyses.kernel.segments import (
    PLACES,
    attention_by_place,
    segment_matrix,
    segment_names,
    segment_widths,
)
from anchorflow.arrays import Array
from anchorflow.config.cell_names import task_of
from anchorflow.config.shards import is_first
from anchorflow.model.attention_function import has_sinks
from anchorflow.model.batches import Batch, Budget, among, run_batches, runnable
from anchorflow.model.cell import Cell
from anchorflow.model.logits import (
    label_predictions,
    prediction_frame,
    target_label_logits,
    target_logits,
)
from anchorflow.model.prefix import Prefix, compute_prefix, shared_token_ids
from anchorflow.model.size import Cost, Prompts
from anchorflow.model.target_attention import (
    DemonstrationAttention,
    by_demonstration,
    rows_and_logits,
)
from anchorflow.model.tokenizer import open_tokenizer
from anchorflow.prepare.label_words import taken_together
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.random_draws import generator
from anchorflow.schemas.fields import SINK
from anchorflow.schemas.frames import frame_schema, keyed, places_of
from anchorflow.schemas.predictions import PREDICTIONS
from anchorflow.schemas.prompts import PROMPTS
from anchorflow.schemas.samples import SAMPLES
from anchorflow.schemas.texts import TEXTS
from anchorflow.statistics.estimates import correlations

SCHEMAS = {  # of the tables that this analysis writes, by file
    "attention": KERNEL_ATTENTION,
    "predictions": PREDICTIONS,
    "kernel": KERNEL,
    "segments": SEGMENTED,
    "places": PLACED,
    "similarity": SIMILARITY,
    "states": STATES,
    "counts": COUNTS,
}


def kernel_estimates(weights: Array, labels: Sequence[int], classes: int) -> Array:
    """Kernel regression of the label, ŷ = Σ_i a_i e(y_i) / Σ_i a_i.

    The weights a_i ≥ 0, [..., N], are attention to each demonstration. The estimates, [..., C], are
    NaN where all weights are 0.

    Source: Han et al. 2025, eq. 6; with attention as weights, §5.2.
    """
    total = weights.sum(-1, keepdims=True)
    sums = weights @ np.eye(classes)[np.asarray(labels)]
    estimates: Array = np.divide(sums, total, out=np.full(sums.shape, np.nan), where=total > 0)
    return estimates


def kernel_predictions(estimates: Array) -> NDArray[np.int64]:
    """The label of the largest estimate [..., C]: [...], int; -1 where an estimate is undefined."""
    unknown = np.isnan(estimates).any(-1)
    return np.where(unknown, -1, np.nan_to_num(estimates).argmax(-1))


def cost(prompts: Prompts, _: Mapping[str, Any], __: int) -> Cost:
    """All passes: each test text after the demonstrations, both alone, and after fewer of them.

    Alone means as bare text and in the template. The numbers of demonstrations per label are powers
    of 2, see :func:`~anchorflow.analyses.kernel.samples.smaller_counts`.
    """
    rounds = prompts.demonstrations / max(1, prompts.labels * prompts.query)
    fewer = int(max(0, rounds - 1)).bit_length()
    return Cost(prompts.once + 2 * (prompts.asked + prompts.demonstrations) + fewer * prompts.asked)


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
) -> dict[str, pl.DataFrame]:
    """Run all measurements of this analysis for one model, task, and seed; see ``SCHEMAS``.

    All ``prompts`` have the same demonstrations, in rounds of one for each label; those of
    ``smaller`` have only the first ones, by number of demonstrations per label. ``offsets`` are
    positions relative to each label word whose keys and values are recorded.
    """
    parts = {name: [pl.DataFrame(schema=frame_schema(schema))] for name, schema in SCHEMAS.items()}
    chosen = runnable(taken_together(prompts), "kernel")
    if chosen.is_empty():
        return {name: frames[0] for name, frames in parts.items()}
    keys = chosen.select("model", "task", "seed").row(0, named=True)
    prefix = compute_prefix(model, shared_token_ids(chosen))
    budget = Budget(batch_tokens)
    (tests, demonstrations), (queries, demonstration_queries) = apart
    similarity, _ = text_similarity(model, among(tests, examples), demonstrations, budget)
    # Probes decode these: after bare texts, the most likely token, for example a newline, may be
    # the same for all.
    in_template, next_tokens = text_similarity(
        model, among(queries, examples), demonstration_queries, budget
    )
    measured = among(chosen, examples)
    of_example = {row["example"]: row for row in measured.iter_rows(named=True)}

    sinks = has_sinks(model)

    def measure(batch: Batch) -> dict[str, pl.DataFrame]:
        rows, logits = rows_and_logits(model, batch, prefix)
        attention = by_demonstration(rows, batch)
        similar = {
            "": np.stack([similarity[example] for example in batch.examples]),
            "_in_template": np.stack([in_template[example] for example in batch.examples]),
        }
        prompts_of_batch = [of_example[example] for example in batch.examples]
        return {
            "predictions": prediction_frame(batch, logits, tokenizer, keys),
            "attention": _attention_frame(batch, attention, keys),
            "kernel": _kernel_frame(batch, attention, similar, keys),
            "segments": _segments_frame(batch, rows, prompts_of_batch, keys, sinks),
            "places": _places_frame(batch, rows, keys),
            "similarity": _similarity_frame(batch, similar, keys),
        }

    with tqdm(total=len(measured), desc="attention", unit="example", mininterval=1) as progress:
        for batch, frames in run_batches(measured, budget, model.device, measure, prefix.tokens):
            for name, frame in frames.items():
                parts[name].append(frame)
            progress.update(batch.size)
    # Not taken together, since probes decode all labels.
    prompt = runnable(prompts, "kernel").row(0, named=True)
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
    return tables


def text_similarity(
    model: PreTrainedModel, tests: pl.DataFrame, demonstrations: pl.DataFrame, budget: Budget
) -> tuple[dict[int, Array], list[int]]:
    """Similarity of the next-token distributions after two texts, Σ_o P(o|x) P(o|x_i).

    In the paper, the texts stand alone, without demonstrations and without the template. Each test
    text that fits the context has its similarity to every demonstration, [N], and each
    demonstration its most likely next token.

    Source: Han et al. 2025, §5.3 and eq. 9.
    """

    def next_token(batch: Batch) -> Tensor:
        return target_logits(model, batch).softmax(-1)

    next_tokens: dict[int, Tensor] = {}
    for batch, probabilities in run_batches(demonstrations, budget, model.device, next_token):
        next_tokens |= dict(zip(batch.examples, probabilities, strict=True))
    matrix = torch.stack([next_tokens[number] for number in sorted(next_tokens)])  # [N, vocabulary]

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
    shape = attention.label.shape[:3]
    frame = pl.DataFrame(
        {
            **places_of(shape, layer=None, example=batch.examples, head=None),
            "attention_max": attention.largest.flatten(0, 2).numpy(),
            "attention_label": attention.label.flatten(0, 2).numpy(),
            "attention_mean": attention.mean.flatten(0, 2).numpy(),
        }
    )
    return keyed(frame, keys, KERNEL_ATTENTION)


def _of_kinds(attention: DemonstrationAttention) -> dict[str, Array]:
    """How attention to a demonstration's tokens becomes one weight, [L, B, H, N]."""
    kinds = {"max": attention.largest, "label": attention.label, "mean": attention.mean}
    return {name: weights.double().numpy() for name, weights in kinds.items()}


def _permuted(labels: Sequence[int], example: int, keys: Mapping[str, str | int]) -> list[int]:
    """The demonstrations' labels in random order, which pairs each with another's weight."""
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
        predicted = kernel_predictions(kernel_estimates(weights, labels, classes))
        permuted = _with_permuted_labels(weights, batch.examples, labels, classes, keys)
        correlated = {
            f"correlation{kind}": correlations(weights, of[None, :, None]).ravel()
            for kind, of in similarities.items()
        }
        columns = {
            **places_of(predicted.shape, layer=None, example=batch.examples, head=None),
            "weights": [name] * predicted.size,
            "prediction": predicted.ravel(),
            **correlated,
            "permuted": permuted.ravel(),
        }
        parts.append(pl.DataFrame(columns))
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
    """Predictions of kernel regression with labels permuted for each example, [L, B, H]."""
    others = [_permuted(labels, example, keys) for example in examples]
    of_examples = [
        kernel_predictions(kernel_estimates(of_example, given, classes))
        for of_example, given in zip(weights.swapaxes(0, 1), others, strict=True)
    ]
    return np.stack(of_examples, 1)


def predictions_of_heads(rows: Tensor, batch: Batch) -> pl.Series:
    """Prediction of each head's kernel regression, with the largest attention as weights.

    ``rows``, [L, B, H, T], are A_{h,l}(q, :); all examples have the same demonstrations.
    Predictions are ordered by layer and head, and null where all weights of a head are 0.
    """
    weights = by_demonstration(rows, batch).largest.double().numpy()
    labels, classes = batch.demonstration_labels[0].tolist(), len(batch.label_tokens)
    return _by_example("heads", kernel_predictions(kernel_estimates(weights, labels, classes)))


def _by_example(name: str, predictions: NDArray[np.int64]) -> pl.Series:
    """Predictions of all heads [L, B, H] as one list per example; null where undefined."""
    heads = predictions.swapaxes(0, 1).reshape(predictions.shape[1], -1).tolist()
    return pl.Series(name, [[None if label < 0 else label for label in labels] for labels in heads])


def _segments_frame(
    batch: Batch,
    rows: Tensor,
    prompts: list[dict[str, Any]],
    keys: Mapping[str, str | int],
    sinks: bool,
) -> pl.DataFrame:
    matrix, widths = segment_matrix(prompts, rows.shape[-1]), segment_widths(prompts)
    total = torch.einsum("lbht,bst->lbhs", rows, matrix).numpy()
    names = segment_names(prompts[0]["field_names"])
    tokens = matrix.sum(-1).numpy()
    if sinks:  # what no token gets, as a segment without tokens
        rest = (1 - rows.sum(-1, keepdim=True)).clamp(0).numpy()
        total, names = np.concatenate([total, rest], -1), [*names, SINK]
        tokens, widths = (np.pad(of, ((0, 0), (0, 1))) for of in (tokens, widths))
    of_all = {"tokens": tokens, "width": widths}  # [B, S]
    frame = pl.DataFrame(
        {
            **places_of(total.shape, layer=None, example=batch.examples, head=None, segment=names),
            "attention": total.ravel(),
            **{
                name: np.broadcast_to(of[:, None], total.shape).ravel()
                for name, of in of_all.items()
            },
        }
    )
    return keyed(frame, keys, SEGMENTED)


def _places_frame(batch: Batch, rows: Tensor, keys: Mapping[str, str | int]) -> pl.DataFrame:
    starts, ends = batch.demonstration_starts.cpu(), batch.demonstration_ends.cpu()
    of_heads = rows.mean(2, keepdim=True)
    mean = attention_by_place(of_heads, starts, ends)[:, :, 0].numpy()  # [L, B, PLACES]
    middle = (np.arange(PLACES) + 0.5) / PLACES
    at = places_of(mean.shape, layer=None, example=batch.examples, place=middle)
    return keyed(pl.DataFrame({**at, "attention": mean.ravel()}), keys, PLACED)


def _similarity_frame(
    batch: Batch, similarities: Mapping[str, Array], keys: Mapping[str, str | int]
) -> pl.DataFrame:
    shape = batch.demonstration_labels.shape
    frame = pl.DataFrame(
        {
            **places_of(shape, example=batch.examples, demonstration=None),
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
    """Keys and values at each offset from the label words that lies in the shared prefix."""
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

    The same run gives the prediction of every head's kernel regression, with the largest attention
    to a token of each demonstration as weights. ``whole_ids`` are the tokens of a prompt that
    begins with ``whole``. The task and seed in ``keys`` determine the permutations of labels.
    """
    chosen = runnable(prompts, "kernel")
    # A token may span what follows the last demonstration, so the ids decide how much is shared.
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
            predictions_of_heads(rows, batch), _by_example("heads_permuted", permuted)
        )

    measured = among(chosen, examples)
    for _, rows in run_batches(measured, budget, model.device, measure, prefix.tokens):
        parts.append(rows.cast(parts[0].schema))
    return pl.concat(parts)


def measure(cell: Cell) -> None:
    spec, drawn = cell.spec, cell.read("samples", SAMPLES)
    builder = PromptBuilder.open(cell.input.tokenizer, cell.task, cell.card["name"])
    examples = cell.examples(drawn)
    texts, prompts = cell.read("texts", TEXTS), cell.read("prompts", PROMPTS)
    built = build_kernel_prompts(texts, prompts, drawn, builder, spec)
    run = among(built.prompts, examples)
    tables = measure_kernel(
        cell.model(run, cost, spec),
        open_tokenizer(cell.input.tokenizer),
        built.prompts,
        built.smaller,
        built.apart,
        spec["offsets"],
        cell.batch_tokens,
        examples,
    )
    if not is_first(cell.shard):  # belongs to no test text, so only the first shard has it
        tables["states"] = tables["states"].clear()
    settings = cell.described(kernel=spec, task=cell.task)
    cell.write(SAMPLES, among(built.samples, examples), settings, "samples")
    cell.write(PROMPTS, run, settings, "prompts")
    for name, schema in SCHEMAS.items():
        cell.write(schema, tables[name], settings, name)
