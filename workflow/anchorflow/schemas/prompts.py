"""Table of prompts: one per (demonstration protocol, test example)."""

import pyarrow as pa

from anchorflow.schemas.fields import (
    DEMONSTRATION_LABELS,
    EXAMPLE,
    INDICES,
    LABEL,
    MODEL,
    PROTOCOL,
    SEED,
    TASK,
    field,
    table,
)

PROMPTS = table(
    "prompts",
    "one per (demonstration protocol, test example); those too long are marked as skipped",
    MODEL,
    TASK,
    SEED,
    PROTOCOL,
    EXAMPLE,
    LABEL,
    field("tokens", pa.int32(), "length of the prompt", "tokens"),
    field("skipped", pa.string(), "why the prompt is not run; null if it is run"),
    field("context", pa.int32(), "the most tokens that the model takes", "tokens"),
    field("token_ids", INDICES, "the whole prompt as token ids"),
    field(
        "label_positions",
        INDICES,
        "p_k: first token of each demonstration's label word, after what all label words of the "
        "task begin with",
    ),
    field("label_ends", INDICES, "token after the last token of each demonstration's label word"),
    field("target_position", pa.int32(), "q: the last token, whose successor is predicted"),
    field("format_positions", INDICES, "tokens of the template and separators, and the BOS token"),
    field("demonstration_starts", INDICES, "first token of each demonstration"),
    field("demonstration_ends", INDICES, "token after the last token of each demonstration"),
    field("query_start", pa.int32(), "first token of the query"),
    field(
        "instruction_end",
        pa.int32(),
        "token after the instruction's last one; those before it that are not of "
        "format_positions are the instruction's; null without an instruction",
    ),
    field("field_names", pa.list_(pa.string()), "the fields of a text, in the prompt's order"),
    field(
        "field_starts",
        INDICES,
        "first token of each field, of one demonstration after another, then of the query",
    ),
    field("field_ends", INDICES, "token after the last token of each field, as field_starts"),
    DEMONSTRATION_LABELS,
    field(
        "label_tokens",
        INDICES,
        "first token id of each label word, after what all of them begin with, in label order",
    ),
    field(
        "word_tokens",
        pa.list_(INDICES),
        "all token ids of each label word, after what all of them begin with, in label order, as "
        "in demonstrations",
    ),
    keys="model task seed demonstrations example",
)
