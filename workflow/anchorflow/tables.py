"""The tables between the stages: one typed Parquet schema each, written whole or not at all.

Every field carries a description and a unit. Every file carries the table's name and schema
version, the settings its values depend on, and the versions of the software that computed them.
A checksum of the whole file, inside it, tells a damaged one from one that holds other numbers.
"""

import contextlib
import glob
import importlib.metadata
import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from anchorflow.checksums import is_sealed, seal
from anchorflow.errors import InputError, disk_is_full, full_disk_sentence
from anchorflow.folders import make_writable

SCHEMA_VERSION = 1
REMEDY = "delete it and run again to rebuild it."
_SOFTWARE = (
    *("anchorflow", "torch", "transformers", "tokenizers", "sentence-transformers"),
    *("numpy", "scipy", "scikit-learn", "polars", "pyarrow"),
)


def _field(name: str, kind: pa.DataType, description: str, unit: str = "") -> pa.Field:
    return pa.field(name, kind, metadata={"description": description, "unit": unit})


def _table(name: str, rows: str, *fields: pa.Field, keys: str) -> pa.Schema:
    """A schema; ``keys`` are the columns, in order, that together tell its rows apart."""
    return pa.schema(fields, metadata={"table": name, "rows": rows, "keys": keys})


_INDICES = pa.list_(pa.int32())
_MODEL = _field("model", pa.string(), "name of the model in the configuration")
_TASK = _field("task", pa.string(), "name of the task in the configuration")
_SEED = _field("seed", pa.int64(), "seed of all random draws")
_PROTOCOL = _field(
    "demonstrations",
    pa.string(),
    "per_example: drawn anew for each test example; fixed: one draw per seed; of the prompts for "
    "re-weighting, training: the fixed ones, before a training text; many: the fixed ones and "
    "training texts; content_free: the fixed ones, before an input that says nothing; of the "
    "prompts for retrieval, nearest: the training texts most similar to the test text; "
    "nearest_per_label: those of each label; of those for kernel regression, kernel: one draw per "
    "seed, as many as a budget of tokens allows; alone: none",
)
_EXAMPLE = _field(
    "example",
    pa.int32(),
    "row of the test text within the task's test split (training: within the training split; "
    "content_free: which input)",
)
_LABEL = _field(
    "label", pa.int32(), "true label, index into the task's label words; -1 where there is none"
)
_LAYER = _field("layer", pa.int32(), "transformer layer, counted from 0")
_HEAD = _field("head", pa.int32(), "query head, counted from 0")
_DEMONSTRATION = _field(
    "demonstration", pa.int32(), "demonstration, counted from 0 in prompt order"
)
_DEMONSTRATION_LABEL = _field(
    "label", pa.int32(), "label of the demonstration, index into the label words"
)
_DEMONSTRATION_LABELS = _field(
    "demonstration_labels", _INDICES, "label of each demonstration, in prompt order"
)
_INTERVAL = (
    _field("low", pa.float64(), "lower end of the bootstrap interval", "as mean"),
    _field("high", pa.float64(), "upper end of the bootstrap interval", "as mean"),
    _field("examples", pa.int32(), "examples averaged, summed over seeds", "examples"),
    _field("seeds", pa.int32(), "seeds averaged", "seeds"),
)
_PREDICTED = (
    _field("prediction", pa.int32(), "label of highest probability, index into the label words"),
    _field(
        "probabilities",
        pa.list_(pa.float32()),
        "softmax over the label words' first tokens, in label order",
        "probability",
    ),
)
_SKIPPED = _field(
    "skipped", pa.int32(), "examples not run since their prompt exceeds the context", "examples"
)
_KINDS_OF_WEIGHTS = (
    "which attention a_i is taken as a demonstration's weight: max, the largest to any of its "
    "tokens; label, that to its label token; mean, over its tokens"
)
_WEIGHTS = _field("weights", pa.string(), _KINDS_OF_WEIGHTS)
_WEIGHTS_OR_NULL = _field(
    "weights", pa.string(), f"{_KINDS_OF_WEIGHTS}; null for methods other than heads"
)
_SEGMENT = _field(
    "segment",
    pa.string(),
    "part of a demonstration: before_text and before_label (template), text, label (word), after",
)
_AVERAGED_TASK = _field(
    "task", pa.string(), "name of the task, or 'average' for the mean over tasks"
)

TEXTS = _table(
    "texts",
    "one per text of the task's train and test split",
    _TASK,
    _field("split", pa.string(), "train or test"),
    _field("row", pa.int32(), "row within the split, counted from 0"),
    _field("text", pa.string(), "the text as the source has it"),
    _LABEL,
    keys="task split row",
)

SAMPLES = _table(
    "samples",
    "one per (demonstration protocol, test example)",
    _TASK,
    _SEED,
    _PROTOCOL,
    _EXAMPLE,
    _field("text", pa.string(), "the test text"),
    _LABEL,
    _field("demonstration_rows", _INDICES, "row of each demonstration within the train split"),
    _field("demonstration_texts", pa.list_(pa.string()), "text of each demonstration, in order"),
    _DEMONSTRATION_LABELS,
    keys="task seed demonstrations example",
)

PROMPTS = _table(
    "prompts",
    "one per (demonstration protocol, test example); too long ones included, marked as skipped",
    _MODEL,
    _TASK,
    _SEED,
    _PROTOCOL,
    _EXAMPLE,
    _LABEL,
    _field("tokens", pa.int32(), "length of the prompt", "tokens"),
    _field("skipped", pa.string(), "why the prompt is not run; null if it is run"),
    _field("token_ids", _INDICES, "the whole prompt as token ids"),
    _field("label_positions", _INDICES, "p_k: first token of each demonstration's label word"),
    _field("target_position", pa.int32(), "q: the last token, whose successor is predicted"),
    _field("format_positions", _INDICES, "tokens of the template, of separators, and the BOS"),
    _field("demonstration_starts", _INDICES, "first token of each demonstration"),
    _field("demonstration_ends", _INDICES, "token after the last one of each demonstration"),
    _field("query_start", pa.int32(), "first token of the query"),
    _DEMONSTRATION_LABELS,
    _field("label_tokens", _INDICES, "first token id of each label word, in label order"),
    keys="model task seed demonstrations example",
)

ATTENTION = _table(
    "attention",
    "one per (example, layer, head, demonstration), demonstrations fixed",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LAYER,
    _HEAD,
    _DEMONSTRATION,
    _DEMONSTRATION_LABEL,
    _field(
        "attention_label", pa.float32(), "A(q, p_k): from target to the label token", "probability"
    ),
    _field(
        "attention_max",
        pa.float32(),
        "largest attention from the target to a token of the demonstration",
        "probability",
    ),
    _field(
        "attention_mean",
        pa.float32(),
        "mean attention from the target to the demonstration's tokens",
        "probability",
    ),
    keys="model task seed example layer head demonstration",
)

PREDICTIONS = _table(
    "predictions",
    "one per example, demonstrations fixed",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LABEL,
    *_PREDICTED,
    _field("top_tokens", _INDICES, "the five likeliest next tokens of the whole vocabulary"),
    _field("top_texts", pa.list_(pa.string()), "the same tokens as text"),
    _field(
        "top_probabilities",
        pa.list_(pa.float32()),
        "their probabilities over the whole vocabulary",
        "probability",
    ),
    keys="model task seed example",
)

SALIENCY = _table(
    "saliency",
    "one per (example, layer)",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LAYER,
    _field("s_wp", pa.float64(), "S_wp: mean significance, earlier tokens to label words", "nats"),
    _field("s_pq", pa.float64(), "S_pq: mean significance, label words to the target", "nats"),
    _field("s_ww", pa.float64(), "S_ww: mean significance of all other token pairs", "nats"),
    keys="model task seed example layer",
)

_VARIANT = _field(
    "variant",
    pa.string(),
    "mask: earlier tokens are hidden before the softmax; zero: their attention is set to 0 after "
    "it; none: the untouched run",
)
_POSITIONS = _field(
    "positions", pa.string(), "isolated positions: label, random (other tokens), or none"
)
_SIDE = _field("side", pa.string(), "which layers are isolated: first, last, or none")
_LAYERS = _field("layers", pa.int32(), "how many layers are isolated", "layers")

ISOLATION = _table(
    "isolation",
    "one per (example, variant, positions, draw, side, layers), demonstrations fixed",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _VARIANT,
    _POSITIONS,
    _field("draw", pa.int32(), "draw of the random positions, counted from 0"),
    _SIDE,
    _LAYERS,
    _LABEL,
    *_PREDICTED,
    _field("top_tokens", _INDICES, "the likeliest next tokens of the whole vocabulary, in order"),
    keys="model task seed example variant positions draw side layers",
)

LOYALTY = _table(
    "loyalty",
    "one per (task or average, variant, positions, side, layers, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _VARIANT,
    _POSITIONS,
    _SIDE,
    _LAYERS,
    _field(
        "measure",
        pa.string(),
        "label_loyalty: share of predictions as in the untouched run; word_loyalty: Jaccard "
        "similarity of the likeliest tokens with those of the untouched run; accuracy; divergence: "
        "Kullback-Leibler divergence of the label distribution from the untouched one",
    ),
    _field("mean", pa.float64(), "mean over seeds", "1, or nats (divergence)"),
    *_INTERVAL,
    _field(
        "draws", pa.int32(), "draws of positions averaged; 1 for label words, not random", "draws"
    ),
    _SKIPPED,
    keys="model task variant positions side layers measure",
)

FLOW = _table(
    "flow",
    "one per (task or average, layer, flow, scale)",
    _MODEL,
    _AVERAGED_TASK,
    _LAYER,
    _field("flow", pa.string(), "s_wp, s_pq or s_ww"),
    _field(
        "scale",
        pa.string(),
        "absolute: S itself; proportion: S divided by S_wp + S_pq + S_ww of the same example",
    ),
    _field("mean", pa.float64(), "mean over examples, then over seeds", "nats, or 1 (proportion)"),
    *_INTERVAL,
    _SKIPPED,
    keys="model task layer flow scale",
)

DEEP = _table(
    "deep",
    "one per (task or average, layer, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _LAYER,
    _field(
        "measure",
        pa.string(),
        "auc: AUCROC_l of label-word attention against the model's own predictions; "
        "cumulative: R_l, the share of all layers' excess AUC reached by layer l",
    ),
    _field("mean", pa.float64(), "mean over seeds; null where undefined", "1"),
    *_INTERVAL,
    _field("unpredicted", pa.int32(), "classes never predicted, summed over seeds", "classes"),
    keys="model task layer measure",
)

_LEARNING_RATE = _field("learning_rate", pa.float64(), "step size of Adam", "1")

BETA = _table(
    "beta",
    "one per (layer, head, demonstration)",
    _MODEL,
    _TASK,
    _SEED,
    _LAYER,
    _HEAD,
    _DEMONSTRATION,
    _DEMONSTRATION_LABEL,
    _field("beta", pa.float32(), "β; attention to the label word is multiplied by exp(β)", "1"),
    keys="model task seed layer head demonstration",
)

DESCENT = _table(
    "descent",
    "one per (learning rate, fold, step)",
    _MODEL,
    _TASK,
    _SEED,
    _LEARNING_RATE,
    _field(
        "fold",
        pa.int32(),
        "half of the training texts that was held out, 0 or 1; null: the fit to all of them",
    ),
    _field("epoch", pa.int32(), "epoch, counted from 0"),
    _field("step", pa.int32(), "step of gradient descent, counted from 0 over all epochs"),
    _field("loss", pa.float64(), "mean cross-entropy of the step's texts before it", "nats"),
    keys="model task seed learning_rate fold step",
)

LEARNING_RATES = _table(
    "learning_rates",
    "one per learning rate in the configuration",
    _MODEL,
    _TASK,
    _SEED,
    _LEARNING_RATE,
    _field(
        "held_out_loss",
        pa.float64(),
        "mean cross-entropy on held-out training texts; infinite if a fit diverged; null if there "
        "is only one rate",
        "nats",
    ),
    _field("chosen", pa.bool_(), "whether β was fitted with this rate"),
    keys="model task seed learning_rate",
)

_METHOD = _field(
    "method",
    pa.string(),
    "vanilla: in-context learning as it is; many: with more demonstrations; calibrated: divided by "
    "the label probabilities for inputs without content; attention_regression: logistic regression "
    "on attention to the label words; reweighted: with attention to them multiplied by exp(β)",
)

REWEIGHTING = _table(
    "reweighting",
    "one per (example, method), demonstrations fixed",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _METHOD,
    _LABEL,
    *_PREDICTED,
    keys="model task seed example method",
)

_COMPRESSED = _field(
    "method",
    pa.string(),
    "what is left of the demonstrations: full: everything; text_anchor: formatting and label words "
    "as text; hidden_anchor: their keys and values; hidden_random: formatting and as many random "
    "tokens; label_only; format_only; recent; attention_sink: the first four and the last; even; "
    "key_norm, key_diff, tova, snapkv: by keys, or by attention from the demonstrations' last "
    "tokens; hidden_random_oracle, hidden_random_top: the most loyal draw, chosen on the same "
    "examples or on other ones; reweighted: everything, attention to "
    "label words re-weighted; reweighted_anchor: hidden_anchor re-weighted",
)
_SHARE = _field(
    "share",
    pa.float64(),
    "largest share of the demonstrations' tokens to keep; null: as many as there are anchors, or "
    "as the method says",
    "1",
)

COMPRESSION = _table(
    "compression",
    "one per (example, method, share, draw), demonstrations fixed",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _COMPRESSED,
    _SHARE,
    _field("draw", pa.int32(), "draw of random positions, counted from 0"),
    _field("kept", pa.int32(), "tokens kept in every layer and head", "tokens"),
    _field("shared", pa.int32(), "tokens of all demonstrations", "tokens"),
    _LABEL,
    *_PREDICTED,
    _field("top_tokens", _INDICES, "the five likeliest next tokens of the whole vocabulary"),
    keys="model task seed example method share draw",
)

RETENTION = _table(
    "retention",
    "one per (task or average, method, share, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _COMPRESSED,
    _SHARE,
    _field(
        "measure",
        pa.string(),
        "label_loyalty: share of predictions as with everything kept; word_loyalty: Jaccard "
        "similarity of the five likeliest tokens with those; accuracy; kept_share: tokens kept, of "
        "all tokens of the demonstrations",
    ),
    _field("mean", pa.float64(), "mean over seeds", "1"),
    *_INTERVAL,
    _field("draws", pa.int32(), "draws of positions averaged", "draws"),
    _SKIPPED,
    _field(
        "published",
        pa.float64(),
        "[A] Table 2, where model and tasks are the paper's; or null",
        "1",
    ),
    keys="model task method share measure",
)

TIMING = _table(
    "timing",
    "one per way to answer queries; depends on the machine",
    _MODEL,
    _TASK,
    _SEED,
    _field(
        "way",
        pa.string(),
        "full_prompt: demonstrations and query anew each time; the others keep a cache of the "
        "demonstrations, as in the compression table",
    ),
    _field("batch_size", pa.int32(), "queries answered together", "queries"),
    _field("milliseconds", pa.float64(), "median time per query", "ms"),
    _field("low", pa.float64(), "lower quartile over queries and repetitions", "ms"),
    _field("high", pa.float64(), "upper quartile over queries and repetitions", "ms"),
    _field("runs", pa.int32(), "batches timed", "batches"),
    _field(
        "build",
        pa.float64(),
        "median time to build the cache; null for re-weighting, which takes a fit besides",
        "ms",
    ),
    _field(
        "break_even",
        pa.float64(),
        "queries after which building the cache has paid, against full prompts; null if never, or "
        "if it was not timed",
        "queries",
    ),
    _field("prompt_tokens", pa.float64(), "mean length of the full prompts", "tokens"),
    _field("kept", pa.int32(), "tokens in the cache, in every layer and head", "tokens"),
    _field("kept_bytes", pa.int64(), "size of the cache", "bytes"),
    _field("device", pa.string(), "cpu, or the GPU's name"),
    _field("threads", pa.int32(), "CPU threads", "threads"),
    keys="model task seed way",
)

_PAIR = (
    _field("label", pa.int32(), "one label of a pair, index into the label words"),
    _field("other", pa.int32(), "the other label of the pair, the larger index"),
)

DIAGNOSIS = _table(
    "diagnosis",
    "one per (layer, pair of labels)",
    _MODEL,
    _TASK,
    _SEED,
    _LAYER,
    *_PAIR,
    _field(
        "distance",
        pa.float64(),
        "distance of the label words' keys along the principal components of the targets' queries, "
        "divided by the largest of the layer, hence 1 for two labels; null if queries do not vary",
        "1",
    ),
    keys="model task seed layer label other",
)

CONFUSION = _table(
    "confusion",
    "one per (task, pair of labels) for auc, (task, layer, pair) for distance, (task or average, "
    "layer) for correlation",
    _MODEL,
    _AVERAGED_TASK,
    _field(
        "measure",
        pa.string(),
        "auc: how well the ratio of two labels' probabilities tells their examples apart; "
        "distance: of their label words' keys; correlation: Spearman's rank correlation of the two "
        "over pairs of labels",
    ),
    _field("layer", pa.int32(), "transformer layer, counted from 0; null for auc"),
    _field("label", pa.int32(), "one label of a pair; null for correlation"),
    _field("other", pa.int32(), "the other label of the pair; null for correlation"),
    _field(
        "mean",
        pa.float64(),
        "mean over seeds; null where undefined, as a correlation over fewer than three pairs",
        "1",
    ),
    *_INTERVAL,
    _SKIPPED,
    keys="model task measure layer label other",
)

EMBEDDINGS = _table(
    "embeddings",
    "one per text of the task's train and test split",
    _TASK,
    _field("split", pa.string(), "train or test"),
    _field("row", pa.int32(), "row within the split, counted from 0"),
    _field(
        "embedding",
        pa.list_(pa.float32()),
        "the text's vector of unit length, by the sentence encoder",
        "1",
    ),
    keys="task split row",
)

_CHOICE = _field(
    "choice",
    pa.string(),
    "which training texts are the demonstrations: random: one draw per seed; nearest: those most "
    "similar to the test text, nearest_per_label: those of each label, the most similar last",
)

RETRIEVAL = _table(
    "retrieval",
    "one per (example, choice of demonstrations)",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _CHOICE,
    _LABEL,
    *_PREDICTED,
    _field(
        "similarity",
        pa.float64(),
        "cosine similarity of the demonstrations' texts with the test text, averaged",
        "1",
    ),
    _field(
        "same_label", pa.float64(), "share of the demonstrations that carry the true label", "1"
    ),
    keys="model task seed example choice",
)

NEIGHBORS = _table(
    "neighbors",
    "one per (task or average, choice of demonstrations, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _CHOICE,
    _field(
        "measure",
        pa.string(),
        "accuracy; similarity and same_label, as in the retrieval table; accuracy_gain: accuracy "
        "minus that with random demonstrations, on the examples run with both, not for random",
    ),
    _field("mean", pa.float64(), "mean over seeds", "1"),
    *_INTERVAL,
    _SKIPPED,
    keys="model task choice measure",
)

KERNEL_ATTENTION = _table(
    "kernel_attention",
    "one per (example, layer, head), with as many demonstrations as the budget allows",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LAYER,
    _HEAD,
    _field(
        "attention_max",
        pa.list_(pa.float32()),
        "largest attention from the target to a token of each demonstration, in prompt order",
        "probability",
    ),
    _field(
        "attention_label",
        pa.list_(pa.float32()),
        "attention from the target to each demonstration's label token",
        "probability",
    ),
    _field(
        "attention_mean",
        pa.list_(pa.float32()),
        "mean attention from the target to each demonstration's tokens",
        "probability",
    ),
    keys="model task seed example layer head",
)

KERNEL = _table(
    "kernel",
    "one per (example, layer, head, weights), with as many demonstrations as the budget allows",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LAYER,
    _HEAD,
    _WEIGHTS,
    _field(
        "prediction",
        pa.int32(),
        "label of the largest Σ a_i e(y_i), index into the label words; null if all weights are 0",
    ),
    _field(
        "correlation",
        pa.float64(),
        "Pearson's correlation of weights and similarity over demonstrations; null if undefined",
        "1",
    ),
    keys="model task seed example layer head weights",
)

SEGMENTED = _table(
    "segments",
    "one per (example, layer, head, segment), as many demonstrations as the budget allows",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LAYER,
    _HEAD,
    _SEGMENT,
    _field(
        "attention",
        pa.float32(),
        "attention from the target to this segment of all demonstrations together",
        "probability",
    ),
    _field("tokens", pa.int32(), "tokens of this segment in all demonstrations", "tokens"),
    _field(
        "width",
        pa.float64(),
        "the segment's share of a demonstration's tokens, averaged over demonstrations",
        "1",
    ),
    keys="model task seed example layer head segment",
)

_PLACE = _field(
    "place", pa.float64(), "where on a demonstration, of 0 (begin) to 1 (end, separator included)"
)

PLACED = _table(
    "places",
    "one per (example, layer, place), averaged over heads and demonstrations",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LAYER,
    _PLACE,
    _field(
        "attention",
        pa.float32(),
        "attention from the target to the token at this place",
        "probability",
    ),
    keys="model task seed example layer place",
)

SIMILARITY = _table(
    "similarity",
    "one per (example, demonstration), as many demonstrations as the budget allows",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _DEMONSTRATION,
    _DEMONSTRATION_LABEL,
    _field(
        "similarity",
        pa.float64(),
        "Σ_o P(o|x) P(o|x_i) over next tokens, each text in its template without demonstrations",
        "1",
    ),
    keys="model task seed example demonstration",
)

_OFFSET = _field("offset", pa.int32(), "position relative to the label word's first token")

STATES = _table(
    "states",
    "one per (layer, key-value head, demonstration, offset)",
    _MODEL,
    _TASK,
    _SEED,
    _LAYER,
    _field("head", pa.int32(), "key-value head, counted from 0"),
    _DEMONSTRATION,
    _OFFSET,
    _DEMONSTRATION_LABEL,
    _field(
        "next_token",
        pa.int32(),
        "likeliest token after the demonstration's text in its template, without demonstrations",
    ),
    _field("key", pa.list_(pa.float32()), "the key as attention sees it, rotated if keys are"),
    _field("value", pa.list_(pa.float32()), "the value"),
    keys="model task seed layer head demonstration offset",
)

COUNTS = _table(
    "counts",
    "one per (example, number of demonstrations)",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _field(
        "demonstrations_per_label",
        pa.int32(),
        "demonstrations of each label in the prompt, the first of those in the kernel table",
        "demonstrations",
    ),
    _LABEL,
    *_PREDICTED,
    keys="model task seed example demonstrations_per_label",
)

_SOURCE = _field("source", pa.string(), "what is decoded: key or value")
_DECODED = _field(
    "target",
    pa.string(),
    "what is decoded from it: next_token (the likeliest one after the demonstration's text in its "
    "template, without demonstrations) or label",
)

PROBES = _table(
    "probes",
    "one per (layer, key-value head, offset, source, target, demonstration)",
    _MODEL,
    _TASK,
    _SEED,
    _LAYER,
    _field("head", pa.int32(), "key-value head, counted from 0"),
    _OFFSET,
    _SOURCE,
    _DECODED,
    _DEMONSTRATION,
    _field(
        "correct", pa.bool_(), "whether ridge regression on the other folds' demonstrations tells"
    ),
    _field(
        "shuffled",
        pa.float32(),
        "share of shuffles of the targets among demonstrations in which it tells: chance; labels "
        "are shuffled within rounds, each of which has every label once",
        "1",
    ),
    keys="model task seed layer head offset source target demonstration",
)

HEADS = _table(
    "heads",
    "one per (task or average, layer, head, weights, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _LAYER,
    _HEAD,
    _WEIGHTS,
    _field(
        "measure",
        pa.string(),
        "agreement: share of examples in which kernel regression on the head's attention predicts "
        "as the model does; accuracy: as is true; correlation: Pearson's, of attention with the "
        "similarity of the texts, over demonstrations, averaged over examples",
    ),
    _field("mean", pa.float64(), "mean over seeds; null where undefined", "1"),
    *_INTERVAL,
    _SKIPPED,
    keys="model task layer head weights measure",
)

LANDING = _table(
    "landing",
    "one per (task or average, layer, segment) and one per (task or average, layer, place)",
    _MODEL,
    _AVERAGED_TASK,
    _LAYER,
    _field(
        "segment",
        pa.string(),
        "before_text, text, before_label, label or after; null for a place",
    ),
    _field("place", pa.float64(), "see the places table; null for a segment"),
    _field(
        "measure",
        pa.string(),
        "per_token: attention from the target to one token; share: to this segment, of that to all "
        "demonstrations; length: tokens of this segment, of the demonstrations' tokens; width: the "
        "segment's share of a demonstration, averaged over them",
    ),
    _field(
        "mean",
        pa.float64(),
        "mean over heads and examples, then seeds",
        "probability (per_token), 1",
    ),
    *_INTERVAL,
    _SKIPPED,
    keys="model task layer segment place measure",
)

REGRESSORS = _table(
    "regressors",
    "one per (task or average, method, number of demonstrations, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _field(
        "method",
        pa.string(),
        "in_context: the model itself; head_chosen_here, head_held_out: kernel regression on the "
        "attention of the head that agrees most with the model, chosen on the same examples, which "
        "flatters it, or on the other half of the texts; encoder: kernel regression with a "
        "sentence encoder; encoder_logistic: logistic regression on its embeddings",
    ),
    _WEIGHTS_OR_NULL,
    _field(
        "demonstrations_per_label",
        pa.int32(),
        "demonstrations of each label; null: as many as the budget allows",
        "demonstrations",
    ),
    _field(
        "demonstrations",
        pa.float64(),
        "all demonstrations in the prompt, mean over seeds",
        "demonstrations",
    ),
    _field(
        "measure",
        pa.string(),
        "accuracy, or agreement with the model's own predictions with the same demonstrations",
    ),
    _field("mean", pa.float64(), "mean over seeds", "1"),
    *_INTERVAL,
    _SKIPPED,
    keys="model task method weights demonstrations_per_label measure",
)

DECODING = _table(
    "decoding",
    "one per (task or average, layer, offset, source, target, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _LAYER,
    _OFFSET,
    _SOURCE,
    _DECODED,
    _field(
        "measure",
        pa.string(),
        "accuracy of ridge probes on held-out demonstrations, mean over heads; shuffled: the same "
        "for shuffled targets, which is chance; gain: their difference",
    ),
    _field("mean", pa.float64(), "mean over seeds", "1"),
    _field("low", pa.float64(), "lower end of the bootstrap interval", "as mean"),
    _field("high", pa.float64(), "upper end of the bootstrap interval", "as mean"),
    _field("decoded", pa.int32(), "demonstrations averaged, summed over seeds", "demonstrations"),
    _field("seeds", pa.int32(), "seeds averaged", "seeds"),
    keys="model task layer offset source target measure",
)

LABEL_WORDS = _table(
    "label_words",
    "one per (task or average, words, measure), and per layer where the measure is by layer",
    _MODEL,
    _field(
        "task",
        pa.string(),
        "name of the task, or 'average' for the mean over all tasks that have other words; null "
        "there for words that some of them lack",
    ),
    _field(
        "words",
        pa.string(),
        "words: the task's own label words; or the name of others in the configuration",
    ),
    _field(
        "measure",
        pa.string(),
        "accuracy: share of predictions that are the word shown with the true label; "
        "accuracy_change: accuracy minus that with the own words on the same examples; "
        "follows_meaning: accuracy if a predicted word counts as the label that it names among the "
        "own words, where they are the own ones in another order; s_wp_share, s_pq_share: S_wp and "
        "S_pq divided by S_wp + S_pq + S_ww of the same example; s_wp_early, s_pq_late: their "
        "means over the first and the last third of the layers; loyalty_label, loyalty_random: "
        "share of predictions as in the untouched run while label words, or random tokens, are "
        "isolated in the first layers, as many as at most were; loyalty_drop: the second minus the "
        "first",
    ),
    _field("layer", pa.int32(), "transformer layer, counted from 0; null unless by layer"),
    _field("mean", pa.float64(), "mean over seeds; null where undefined", "1"),
    *_INTERVAL,
    _SKIPPED,
    keys="model task words measure layer",
)

CLAIMS = _table(
    "claims",
    "one per (claim, task or average)",
    _MODEL,
    _AVERAGED_TASK,
    _field("claim", pa.string(), "name of the claim"),
    _field("statement", pa.string(), "what it says, in words"),
    _field("source", pa.string(), "paper and section that it is from"),
    _field("compared", pa.string(), "the difference that is above 0 where the claim holds"),
    _field("unit", pa.string(), "unit of the difference"),
    _field(
        "effect",
        pa.float64(),
        "the difference, mean over seeds; null where it is undefined or not tested",
        "as the unit column says",
    ),
    _field(
        "low",
        pa.float64(),
        "lower end of the bootstrap interval; of time, the full prompts' lower quartile over the "
        "anchors' upper one, minus 1, and null over tasks",
        "as effect",
    ),
    _field(
        "high",
        pa.float64(),
        "upper end of the bootstrap interval; of time, the full prompts' upper quartile over the "
        "anchors' lower one, minus 1, and null over tasks",
        "as effect",
    ),
    _field(
        "examples",
        pa.int32(),
        "examples, or pairs of the same example, summed over seeds; of time, batches timed",
        "examples, or batches",
    ),
    _field("seeds", pa.int32(), "seeds averaged; over tasks, the most that a task has", "seeds"),
    _field("rule", pa.string(), "what decides the verdict"),
    _field("verdict", pa.string(), "supported, not supported, inconclusive or not tested"),
    _field(
        "reason",
        pa.string(),
        "why it was not tested or has no effect, or which tasks the average lacks; null otherwise",
    ),
    keys="model task claim",
)

TOKEN_SALIENCY = _table(
    "token_saliency",
    "one per (example, layer, token), for the examples that have an information-flow page",
    _MODEL,
    _TASK,
    _SEED,
    _EXAMPLE,
    _LAYER,
    _field("token", pa.int32(), "i: the token that information flows to, counted from 0"),
    _field(
        "significance",
        pa.list_(pa.float32()),
        "I_l(i, j): significance of the flow from each earlier token j < i, in order",
        "nats",
    ),
    keys="model task seed example layer token",
)

SHOWN_PROMPTS = _table(
    "shown_prompts",
    "one per example that has an information-flow page",
    _MODEL,
    _TASK,
    _SEED,
    _PROTOCOL,
    _EXAMPLE,
    _LABEL,
    *_PREDICTED,
    _field(
        "texts",
        pa.list_(pa.string()),
        "each token of the prompt as text; U+FFFD for bytes that are no text by themselves",
    ),
    keys="model task seed example",
)

PERFORMANCE = _table(
    "performance",
    "one per (task or average, method, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _METHOD,
    _field(
        "measure",
        pa.string(),
        "accuracy; macro_f1; accuracy_gain and macro_f1_gain: the same minus vanilla's on the same "
        "examples, not for vanilla itself",
    ),
    _field("mean", pa.float64(), "mean over seeds", "1"),
    *_INTERVAL,
    _SKIPPED,
    _field(
        "published", pa.float64(), "[A] Table 1, where model and task are the paper's; or null", "1"
    ),
    keys="model task method measure",
)

ACCURACY = _table(
    "accuracy",
    "one per (task or average, measure)",
    _MODEL,
    _AVERAGED_TASK,
    _field(
        "measure",
        pa.string(),
        "accuracy; macro_f1; majority: share of the most frequent true label",
    ),
    _field("mean", pa.float64(), "mean over seeds", "1"),
    *_INTERVAL,
    _SKIPPED,
    keys="model task measure",
)

TABLES: dict[str, pa.Schema] = {
    schema.metadata[b"table"].decode(): schema
    for schema in (
        TEXTS,
        SAMPLES,
        PROMPTS,
        ATTENTION,
        PREDICTIONS,
        SALIENCY,
        ISOLATION,
        LOYALTY,
        FLOW,
        DEEP,
        BETA,
        DESCENT,
        LEARNING_RATES,
        REWEIGHTING,
        EMBEDDINGS,
        RETRIEVAL,
        NEIGHBORS,
        PERFORMANCE,
        COMPRESSION,
        RETENTION,
        TIMING,
        DIAGNOSIS,
        CONFUSION,
        LABEL_WORDS,
        KERNEL_ATTENTION,
        TOKEN_SALIENCY,
        SHOWN_PROMPTS,
        CLAIMS,
        KERNEL,
        SEGMENTED,
        PLACED,
        SIMILARITY,
        STATES,
        COUNTS,
        PROBES,
        HEADS,
        LANDING,
        REGRESSORS,
        DECODING,
        ACCURACY,
    )
}


def software_versions() -> dict[str, str]:
    """Versions of this package and of those that its numbers depend on."""
    versions = {}
    for name in _SOFTWARE:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, for a file or a directory to be made there.

    It takes the place of ``path`` when the block succeeds.

    A reader sees the old file or the whole new one; a failed or killed block leaves ``path``
    as it was. What a killed block left beside it goes when the next one begins.

    Raises
    ------
    InputError
        If the folder can't be written, or the disk is full.
    """
    path = Path(path)
    make_writable(path.parent)
    for left in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 8}.part"):
        _remove(left)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        os.replace(temporary, path)
    except Exception as error:
        if disk_is_full(error):
            raise InputError(full_disk_sentence(path)) from None
        raise
    finally:
        _remove(temporary)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write_table(
    path: str | Path,
    schema: pa.Schema,
    columns: Mapping[str, Sequence[Any] | Any],
    settings: Mapping[str, Any],
) -> None:
    """Write ``columns`` as one Parquet file with the schema's types and metadata.

    Parameters
    ----------
    columns : name to values
        One entry per field of the schema, all of one length.
    settings : mapping
        The slice of the configuration, and the model's identity, that the values depend on.

    Raises
    ------
    ValueError
        If the columns are not the schema's, or a value does not fit its type.
    """
    if set(columns) != set(schema.names):
        raise ValueError(f"columns {sorted(columns)} are not those of the schema {schema.names}")
    arrays = [_as_array(columns[field.name], field.type) for field in schema]
    metadata = {
        **schema.metadata,
        "schema_version": str(SCHEMA_VERSION),
        "settings": json.dumps(settings, ensure_ascii=False),
        "software": json.dumps(software_versions()),
    }
    table = pa.table(arrays, schema=schema.with_metadata(metadata))
    with replacing(path) as temporary, table_writer(temporary, table.schema) as writer:
        rows = rows_per_group(schema)
        for start in range(0, max(1, len(table)), rows):
            writer.write_table(table.slice(start, rows).combine_chunks())


def rows_per_group(schema: pa.Schema) -> int:
    """Rows of a file's row groups, fewer of a table with lists, so that a group fits in memory."""
    return 2**15 if any(pa.types.is_nested(field.type) for field in schema) else 2**20


@contextlib.contextmanager
def table_writer(path: str | Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """What writes every file of this project, in row groups of one chunk each; sealed at the end.

    How rows were split in memory then leaves no trace in the file.
    """
    with pq.ParquetWriter(path, schema, compression="zstd", version="2.6") as writer:
        yield writer
    seal(path)


def _as_array(values: Any, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Arrow's own arrays are cast as they are: making arrays from them goes value by value."""
    if isinstance(values, pa.ChunkedArray):
        return values.cast(kind)
    return pa.array(values, type=kind)


def frame_schema(schema: pa.Schema) -> pl.Schema:
    """The polars types of a table's columns, for building a data frame row by row."""
    empty = pl.from_arrow(schema.empty_table())
    assert isinstance(empty, pl.DataFrame)
    return empty.schema


def keyed(frame: pl.DataFrame, keys: Mapping[str, Any], schema: pa.Schema) -> pl.DataFrame:
    """Add the key columns to a data frame and give it the table's column order and types."""
    named = frame.with_columns(pl.lit(value).alias(key) for key, value in keys.items())
    return named.select(schema.names).cast(frame_schema(schema))


def write_frame(
    path: str | Path, schema: pa.Schema, frame: pl.DataFrame, settings: Mapping[str, Any]
) -> None:
    """Write a data frame whose columns are the schema's; see :func:`write_table`."""
    arrow = frame.select(schema.names).to_arrow()
    write_table(
        path,
        schema,
        {name: arrow.column(name) for name in schema.names},
        settings,
    )


def read_table(path: str | Path, schema: pa.Schema) -> pl.DataFrame:
    """Read one Parquet file of this project and check that it is the table it should be.

    Raises
    ------
    InputError
        If the file is missing or damaged, or holds another table or schema version.
    """
    check_intact(path, f"{_name(schema)} table")
    table = pq.read_table(path, partitioning=None)
    check_schema(path, table.schema, schema)
    frame = pl.from_arrow(pa.Table.from_arrays(table.columns, schema=schema))
    assert isinstance(frame, pl.DataFrame)
    return frame


def check_intact(path: str | Path, what: str) -> None:
    """Check that a file is, to the bit, one that this project wrote.

    Raises
    ------
    InputError
        If it is missing or damaged.
    """
    try:
        intact = is_sealed(path)
    except FileNotFoundError:
        raise InputError(f"{path}: the {what} is missing; run the workflow to build it.") from None
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror}); {REMEDY}") from None
    if not intact:
        raise InputError(f"{path}: damaged, or not a table that this workflow wrote; {REMEDY}")


def check_schema(path: str | Path, found: pa.Schema, schema: pa.Schema) -> None:
    """Check that a file's schema, as read, is that of the table it should be.

    Raises
    ------
    InputError
        If it is that of another table or schema version.
    """
    metadata = found.metadata or {}
    if metadata.get(b"table") != schema.metadata[b"table"] or not found.equals(schema):
        raise InputError(
            f"{path}: its columns are not those of the {_name(schema)} table; {REMEDY}"
        )
    if metadata.get(b"schema_version") != str(SCHEMA_VERSION).encode():
        raise InputError(
            f"{path}: written with another version of the {_name(schema)} table; {REMEDY}"
        )


def _name(schema: pa.Schema) -> str:
    name: bytes = schema.metadata[b"table"]
    return name.decode()


def read_tables(paths: Sequence[str | Path], schema: pa.Schema) -> pl.DataFrame:
    """Read several files of one table, one below the other; see :func:`read_table`."""
    return pl.concat([read_table(path, schema) for path in paths])


def read_metadata(path: str | Path) -> dict[bytes, bytes]:
    """What a file of this project says of itself: ``table``, ``settings``, ``software`` and so on.

    Raises
    ------
    InputError
        If the file is missing or damaged.
    """
    check_intact(path, "table")
    metadata: dict[bytes, bytes] = pq.read_schema(path).metadata
    return metadata


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings that :func:`write_table` stored in a file; see :func:`read_metadata`."""
    settings: dict[str, Any] = json.loads(read_metadata(path)[b"settings"])
    return settings
