"""Table of prompts: one per (demonstration protocol, test example)."""

from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

PROMPTS = table(
    "prompts",
    "one per (demonstration protocol, test example); prompts that are too long, or whose label "
    "words have other tokens than are scored, are marked as skipped; the latter have no tokens",
    *f.CELL,
    f.PROTOCOL,
    f.EXAMPLE,
    f.LABEL,
    Column("tokens", "int32", "length of the prompt", "tokens"),
    Column("skipped", "string", "why the prompt is not run; null if it is run"),
    Column("context", "int32", "largest number of tokens that the model accepts", "tokens"),
    Column("token_ids", f.INDICES, "the whole prompt as token ids"),
    Column(
        "label_positions",
        f.INDICES,
        "p_k: first token of each demonstration's label word, after what all label words of the "
        "task begin with",
    ),
    Column(
        "label_ends", f.INDICES, "token after the last token of each demonstration's label word"
    ),
    Column("target_position", "int32", "q: the last token, whose successor is predicted"),
    Column(
        "format_positions", f.INDICES, "tokens of the template and separators, and the BOS token"
    ),
    Column("demonstration_starts", f.INDICES, "first token of each demonstration"),
    Column("demonstration_ends", f.INDICES, "token after the last token of each demonstration"),
    Column("query_start", "int32", "first token of the query"),
    Column(
        "instruction_end",
        "int32",
        "token after the instruction's last one; tokens before it, other than "
        "format_positions, belong to the instruction; null without an instruction",
    ),
    Column("field_names", "list<string>", "the fields of a text, in the prompt's order"),
    Column(
        "field_starts",
        f.INDICES,
        "first token of each field, for each demonstration in turn, then for the query",
    ),
    Column("field_ends", f.INDICES, "token after the last token of each field, as field_starts"),
    Column(
        "merged_positions",
        f.INDICES,
        "tokens with characters of a text and of the template, not counting spaces",
    ),
    f.DEMONSTRATION_LABELS,
    Column(
        "label_tokens",
        f.INDICES,
        "first token id of each label word, after what all of them begin with, in label order",
    ),
    Column(
        "word_tokens",
        f"list<{f.INDICES}>",
        "all token ids of each label word, after what all of them begin with, in label order, as "
        "in demonstrations",
    ),
    keys="model task seed demonstrations example",
)
