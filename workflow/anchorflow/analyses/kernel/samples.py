"""Prompts for kernel regression, with as many demonstrations as fit a token budget.

Demonstrations come in rounds of one for each label, in random order. The first rounds of a longer
prompt are therefore a shorter prompt, with labels equally balanced.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from anchorflow.config.errors import InputError
from anchorflow.prepare.control_tokens import Tokenizer, encode
from anchorflow.prepare.prompts import PromptBuilder
from anchorflow.prepare.samples import distinct
from anchorflow.prepare.template import Template, build_prompt
from anchorflow.random_draws import generator
from anchorflow.schemas.frames import frame_schema
from anchorflow.schemas.samples import SAMPLES

_LEAST_TOKENS = 4  # of a demonstration: before the text, text, before the label, label

log = logging.getLogger(__name__)


def draw_rounds(
    texts: pl.DataFrame, fixed: pl.DataFrame, labels: Sequence[str], most: int
) -> pl.DataFrame:
    """Draw training texts for one task and seed, round by round.

    Each round has every label once. The test texts of ``fixed`` are not drawn. There are fewer than
    ``most`` rounds if a label has fewer training texts.
    """
    task, seed = fixed["task"][0], fixed["seed"][0]
    free = distinct(texts, "train", apart_from=fixed["text"])
    random = generator(seed, task, "kernel demonstrations")
    by_label = []
    for label, word in enumerate(labels):
        rows = free.filter(label=label)
        if rows.is_empty():
            raise InputError(
                f'tasks.{task}.train: the label "{word.strip()}" has no training text apart from '
                "the test texts; add some."
            )
        by_label.append(rows[random.permutation(len(rows))])
    drawn: list[pl.DataFrame] = []
    for number in range(min(most, *(len(rows) for rows in by_label))):
        order = random.permutation(len(labels))
        drawn += [by_label[label][number : number + 1] for label in order]
    return pl.concat(drawn).select("row", "text", "label")


def draw_kernel_samples(
    texts: pl.DataFrame,
    prompts: pl.DataFrame,
    samples: pl.DataFrame,
    tokenizer: Tokenizer,
    template: Template,
    labels: Sequence[str],
    tokens: int,
    most: int | None,
    context: int,
) -> pl.DataFrame:
    """The test texts of one task and seed, with as many rounds of demonstrations as fit the budget.

    The budget ``tokens`` is for all demonstrations, without the instruction; there is at least one
    round, even if it exceeds the budget, and at most ``most``. Demonstrations leave room in the
    context for the longest query that fits together with one round; longer queries are skipped.
    """
    fixed = samples.filter(demonstrations="fixed")
    candidates = max(1, tokens // (_LEAST_TOKENS * len(labels)))
    drawn = draw_rounds(texts, fixed, labels, min(candidates, most or candidates))
    words = [labels[label] for label in drawn["label"]]
    labeled_texts = list(zip(drawn["text"], words, strict=True))
    # Tokenized as one prompt with any query; only the ends of its demonstrations are used.
    whole = build_prompt(tokenizer, template, labeled_texts, template.alike("x"))
    before = whole.demonstration_starts[0] if template.instruction or template.chat else 0
    ends = whole.demonstration_ends[len(labels) - 1 :: len(labels)]
    queries = (prompts["tokens"] - prompts["query_start"]).filter(
        prompts["demonstrations"] == "fixed"
    )
    longest = queries.filter(queries + ends[0] <= context).max()
    room = min(before + tokens, context - (longest if isinstance(longest, int) else 0))
    rounds = max(1, int(np.searchsorted(ends, room, side="right")))
    return with_demonstrations(fixed, drawn[: rounds * len(labels)], "kernel")


def with_demonstrations(
    fixed: pl.DataFrame, demonstrations: pl.DataFrame, protocol: str
) -> pl.DataFrame:
    """The test texts of ``fixed``, all with the given demonstrations (row, text, label)."""
    schema = frame_schema(SAMPLES)
    of_all = {
        f"demonstration_{name}": [demonstrations[column].to_list()] * len(fixed)
        for name, column in (("rows", "row"), ("texts", "text"), ("labels", "label"))
    }
    return fixed.with_columns(
        pl.lit(protocol).alias("demonstrations"),
        *(pl.Series(name, values, dtype=schema[name]) for name, values in of_all.items()),
    )


def with_first(kernel: pl.DataFrame, demonstrations: int) -> pl.DataFrame:
    """Kernel samples with only their first demonstrations."""
    names = ("demonstration_rows", "demonstration_texts", "demonstration_labels")
    return kernel.with_columns(pl.col(name).list.head(demonstrations) for name in names)


def smaller_counts(per_label: int) -> list[int]:
    """The powers of 2 below ``per_label``."""
    return [2**power for power in range(per_label.bit_length()) if 2**power < per_label]


def as_queries(kernel: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Each test text, and each demonstration's text, as a query without demonstrations.

    In the second table, ``example`` is the index of the demonstration.
    """
    none = pl.DataFrame(schema={"row": pl.Int32, "text": pl.String, "label": pl.Int32})
    demonstrations = kernel.head(1).select(
        "task",
        "seed",
        "demonstrations",
        pl.int_ranges(pl.col("demonstration_rows").list.len(), dtype=pl.Int32).alias("example"),
        pl.col("demonstration_texts").alias("text"),
        pl.col("demonstration_labels").alias("label"),
    )
    listed = demonstrations.explode("example", "text", "label")
    return with_demonstrations(kernel, none, "alone"), with_demonstrations(
        listed, none, "alone"
    ).select(kernel.columns)


def without_template(
    queries: pl.DataFrame, texts: Sequence[str], tokenizer: Tokenizer, context: int
) -> pl.DataFrame:
    """The bare texts of some queries, without the template.

    Special tokens that the tokenizer adds, for example BOS, remain.
    """
    rows = []
    for query, text in zip(queries.iter_rows(named=True), texts, strict=True):
        token_ids = encode(tokenizer, [("field", text)]).ids
        length = len(token_ids)
        if not length:
            raise InputError(
                f"tasks.{query['task']}: the tokenizer of {query['model']} makes no tokens of the "
                f"text {text!r}; remove it."
            )
        long = f"{length} tokens exceed the context of {context}" if length > context else None
        whole = {"tokens": length, "skipped": long, "token_ids": token_ids, "query_start": 0}
        at = {"target_position": length - 1, "format_positions": [], "instruction_end": None}
        fields: dict[str, Any] = {"field_names": [], "field_starts": [], "field_ends": []}
        rows.append({**query, **whole, **at, **fields})
    return pl.DataFrame(rows, schema=queries.schema)


class TextsApart(NamedTuple):
    """``PROMPTS`` of test texts and of demonstrations' texts, both without demonstrations."""

    alone: tuple[pl.DataFrame, pl.DataFrame]  # the bare text
    in_template: tuple[pl.DataFrame, pl.DataFrame]  # the text as a query


class KernelPrompts(NamedTuple):
    """Samples and prompts for kernel regression, for one task and seed.

    ``samples`` has the columns of ``SAMPLES``, all others those of ``PROMPTS``.
    """

    samples: pl.DataFrame
    prompts: pl.DataFrame
    smaller: Mapping[int, pl.DataFrame]  # by number of demonstrations per label
    apart: TextsApart


def build_kernel_prompts(
    texts: pl.DataFrame,
    prompts: pl.DataFrame,
    samples: pl.DataFrame,
    builder: PromptBuilder,
    spec: Mapping[str, Any],
) -> KernelPrompts:
    """Draw and tokenize all prompts on which kernel regression is measured."""
    drawn = draw_kernel_samples(
        texts,
        prompts,
        samples,
        builder.tokenizer,
        builder.template,
        builder.labels,
        spec["demonstration_tokens"],
        spec.get("demonstrations_per_label"),
        builder.context,
    )
    classes = len(builder.labels)
    per_label = len(drawn["demonstration_rows"][0]) // classes
    if per_label < 2:
        log.warning(
            "kernel.demonstration_tokens: %d tokens have room for only %d text per label with the "
            "%d labels of task %s; probes need at least two, kernel regression more. Increase it.",
            spec["demonstration_tokens"],
            per_label,
            classes,
            drawn["task"][0],
        )
    queries = as_queries(drawn)
    in_template = builder.build(queries[0]), builder.build(queries[1])
    tests, demonstrations = (
        without_template(
            prompts,
            ["\n".join(builder.template.contents(text)) for text in samples["text"]],
            builder.tokenizer,
            builder.context,
        )
        for prompts, samples in zip(in_template, queries, strict=True)
    )
    return KernelPrompts(
        drawn,
        builder.build(drawn),
        {
            count: builder.build(with_first(drawn, count * classes))
            for count in smaller_counts(per_label)
        },
        TextsApart((tests, demonstrations), in_template),
    )
