"""Prompts whose label words have one to three tokens, and the smallest prompt with all kinds."""

from typing import Any

import polars as pl
import torch

from tiny_models import VOCABULARY

WORDS = (1, 3, 2)  # tokens of the label words


def wordy_prompts(queries: list[int], protocol: str) -> pl.DataFrame:
    """Prompts with queries of these lengths, each demonstration ``start text : label separator``.

    With ``per_example``, every example has texts of its own lengths and a special token before
    them. With ``fixed``, all share the demonstrations, which begin with the first token.
    """
    rows = []
    for example, query in enumerate(queries):
        fixed = protocol == "fixed"
        random = torch.Generator().manual_seed(0 if fixed else example)
        position = 0 if fixed else 1
        spans: dict[str, list[int]] = {
            name: [] for name in ("label_positions", "label_ends", "demonstration_starts")
        }
        ends, formats = [], list(range(position))
        for order, words in enumerate(WORDS):
            text = 2 + order if fixed else int(torch.randint(1, 6, (1,), generator=random))
            label = position + 1 + text + 1
            spans["demonstration_starts"].append(position)
            spans["label_positions"].append(label)
            spans["label_ends"].append(label + words)
            formats += [position, label - 1, label + words]
            position = label + words + 1
            ends.append(position)
        shared = torch.randint(1, VOCABULARY, (position,), generator=random).tolist()
        random.manual_seed(100 + example)
        own = torch.randint(1, VOCABULARY, (query,), generator=random).tolist()
        own[0] = 7 + example
        tokens = position + query
        if query == 1:  # merged with the separator: what follows the last label word is the target
            ends[-1] = position = position - 1
            formats.remove(position)
            shared, tokens = shared[:-1], tokens - 1
        rows.append(
            {"model": "tiny", "task": "news", "seed": 0, "demonstrations": protocol}
            | {"example": example, "label": example % 3, "tokens": tokens, "skipped": None}
            | {"token_ids": shared + own, **spans, "target_position": tokens - 1}
            | {"format_positions": [*formats, position], "demonstration_ends": ends}
            | {"query_start": position, "instruction_end": None, "field_names": ["text"]}
            | {"field_starts": [*(start + 1 for start in spans["demonstration_starts"]), position]}
            | {"field_ends": [*(label - 1 for label in spans["label_positions"]), tokens]}
            | {"merged_positions": [], "demonstration_labels": [0, 1, 2]}
            | {"label_tokens": [5, 11, 23]}
        )
    return pl.DataFrame(rows, schema_overrides={"skipped": pl.String, "instruction_end": pl.Int32})


def bare_prompt() -> dict[str, Any]:
    """Nine tokens: the first; twice text, colon, label word; one of the query, and the target."""
    return {
        "task": "news",
        "seed": 0,
        "demonstrations": "per_example",
        "example": 0,
        "label": 0,
        "tokens": 9,
        "token_ids": list(range(9)),
        "label_positions": [3, 6],
        "label_ends": [4, 7],
        "target_position": 8,
        "format_positions": [0, 2, 5],
        "demonstration_starts": [1, 4],
        "demonstration_ends": [4, 7],
        "query_start": 7,
        "instruction_end": None,
        "field_names": ["text"],
        "field_starts": [1, 4, 7],
        "field_ends": [2, 5, 8],
        "merged_positions": [],
        "demonstration_labels": [0, 1],
        "label_tokens": [1, 2],
    }
