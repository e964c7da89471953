"""Table of prompts: one per (demonstration protocol, test example)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

PROMPTS = f.table(
    "prompts",
    "one per (demonstration protocol, test example); prompts that are too long, or whose label "
    "words have other tokens than are scored, are marked as skipped; the latter have no tokens",
    *f.CELL,
    f.PROTOCOL,
    f.EXAMPLE,
    f.LABEL,
    f.field("tokens", pa.int32(), "length of the prompt", "tokens"),
    f.field("skipped", pa.string(), "why the prompt is not run; null if it is run"),
    f.field("context", pa.int32(), "largest number of tokens that the model accepts", "tokens"),
    f.field("token_ids", f.INDICES, "the whole prompt as token ids"),
    f.field(
        "label_positions",
        f.INDICES,
        "p_k: first token of each demonstration's label word, after what all label words of the "
        "task begin with",
    ),
    f.field(
        "label_ends", f.INDICES, "token after the last token of each demonstration's label word"
    ),
    f.field("target_position", pa.int32(), "q: the last token, whose successor is predicted"),
    f.field(
        "format_positions", f.INDICES, "tokens of the template and separators, and the BOS token"
    ),
    f.field("demonstration_starts", f.INDICES, "first token of each demonstration"),
    f.field("demonstration_ends", f.INDICES, "token after the last token of each demonstration"),
    f.field("query_start", pa.int32(), "first token of the query"),
    f.field(
        "instruction_end",
        pa.int32(),
        "token after the instruction's last one; tokens before it, other than "
        "format_positions, belong to the instruction; null without an instruction",
    ),
    f.field("field_names", pa.list_(pa.string()), "the fields of a text, in the prompt's order"),
    f.field(
        "field_starts",
        f.INDICES,
        "first token of each field, for each demonstration in turn, then for the query",
    ),
    f.field("field_ends", f.INDICES, "token after the last token of each field, as field_starts"),
    f.field(
        "merged_positions",
        f.INDICES,
        "tokens with characters of a text and of the template, not counting spaces",
    ),
    f.DEMONSTRATION_LABELS,
    f.field(
        "label_tokens",
        f.INDICES,
        "first token id of each label word, after what all of them begin with, in label order",
    ),
    f.field(
        "word_tokens",
        pa.list_(f.INDICES),
        "all token ids of each label word, after what all of them begin with, in label order, as "
        "in demonstrations",
    ),
    keys="model task seed demonstrations example",
)
