"""The tables between the stages: one typed Parquet schema each, written whole or not at all.

Every field carries a description and a unit. Every file carries the table's name and schema
version, the settings its values depend on, and the versions of the software that computed them.
"""

import contextlib
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

from anchorflow.errors import InputError

SCHEMA_VERSION = 1
_SOFTWARE = ("anchorflow", "torch", "transformers", "tokenizers", "numpy", "polars", "pyarrow")


def _field(name: str, kind: pa.DataType, description: str, unit: str = "") -> pa.Field:
    return pa.field(name, kind, metadata={"description": description, "unit": unit})


def _table(name: str, rows: str, *fields: pa.Field) -> pa.Schema:
    return pa.schema(fields, metadata={"table": name, "rows": rows})


_INDICES = pa.list_(pa.int32())
_MODEL = _field("model", pa.string(), "name of the model in the configuration")
_TASK = _field("task", pa.string(), "name of the task in the configuration")
_SEED = _field("seed", pa.int64(), "seed of all random draws")
_PROTOCOL = _field(
    "demonstrations",
    pa.string(),
    "per_example: drawn anew for each test example; fixed: one draw per seed; of the prompts for "
    "re-weighting, training: the fixed ones, before a training text; many: the fixed ones and "
    "training texts; content_free: the fixed ones, before an input that says nothing",
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
        PERFORMANCE,
        COMPRESSION,
        RETENTION,
        TIMING,
        DIAGNOSIS,
        CONFUSION,
        ACCURACY,
    )
}


def _versions() -> dict[str, str]:
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
    as it was.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        yield temporary
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        os.replace(temporary, path)
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary)
        else:
            temporary.unlink(missing_ok=True)


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
    table = pa.table([pa.array(columns[f.name], type=f.type) for f in schema], schema=schema)
    metadata = {
        **schema.metadata,
        "schema_version": str(SCHEMA_VERSION),
        "settings": json.dumps(settings, ensure_ascii=False),
        "software": json.dumps(_versions()),
    }
    with replacing(path) as temporary:
        pq.write_table(
            table.replace_schema_metadata(metadata), temporary, compression="zstd", version="2.6"
        )


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
        {n: arrow.column(n).cast(schema.field(n).type) for n in schema.names},
        settings,
    )


def read_table(path: str | Path, schema: pa.Schema) -> pl.DataFrame:
    """Read one Parquet file of this project and check that it is the table it should be.

    Raises
    ------
    InputError
        If the file is missing or damaged, or holds another table or schema version.
    """
    name = schema.metadata[b"table"].decode()
    remedy = "delete it and run again to rebuild it."
    try:
        table = pq.read_table(path, partitioning=None)
    except FileNotFoundError:
        raise InputError(
            f"{path}: the {name} table is missing; run the workflow to build it."
        ) from None
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{path}: not a readable Parquet file ({reason}); {remedy}") from None
    metadata = table.schema.metadata or {}
    if metadata.get(b"table") != schema.metadata[b"table"] or not table.schema.equals(schema):
        raise InputError(f"{path}: its columns are not those of the {name} table; {remedy}")
    if metadata.get(b"schema_version") != str(SCHEMA_VERSION).encode():
        raise InputError(f"{path}: written with another version of the {name} table; {remedy}")
    frame = pl.from_arrow(pa.Table.from_arrays(table.columns, schema=schema))
    assert isinstance(frame, pl.DataFrame)
    return frame


def read_tables(paths: Sequence[str | Path], schema: pa.Schema) -> pl.DataFrame:
    """Read several files of one table, one below the other; see :func:`read_table`."""
    return pl.concat([read_table(path, schema) for path in paths])


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings that :func:`write_table` stored in a file of this project."""
    settings: dict[str, Any] = json.loads(pq.read_schema(path).metadata[b"settings"])
    return settings
