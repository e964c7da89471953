"""Table of saliency: one per (example, layer)."""

import pyarrow as pa

from anchorflow.schemas import fields as f

_IN_PLACE = {
    "text": "random tokens of each demonstration's own text, as many as its label word has",
    "before": "the token before each label word",
    "after": "the token after each label word",
}
_FLOWS = {
    "s_wp": "S_wp: mean significance, earlier tokens to label words",
    "s_pq": "S_pq: mean significance, label words to the target",
    "s_ww": "S_ww: mean significance of all other token pairs",
}
_ATTENDED = {
    "label": "label words",
    "template": "template and separators of the demonstrations",
    "text": "the demonstrations' texts",
    "instruction": "the instruction",
    "first": "the prompt's first token, which counts as nothing else",
    "query": "the query before the target",
}
_SOURCES = {
    "text": "the text of the label word's own demonstration",
    "template": "the template of the label word's own demonstration",
    "labels": "label words: those of earlier demonstrations, and earlier tokens of the same one",
    "instruction": "the instruction, 0 without one",
    "rest": "all else before the label word's own demonstration",
    "first": "the prompt's first token",
}
_INTO = {
    "label": "tokens of label words",
    "text": "tokens of the demonstrations' texts",
    "instruction": "tokens of the instruction",
}

SALIENCY = f.table(
    "saliency",
    "one per (example, layer); of the loss of the label word's first token, whatever scoring is",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    *(f.field(flow, pa.float64(), description, "nats") for flow, description in _FLOWS.items()),
    *(
        f.field(
            f"{flow}_{matched}",
            pa.float64(),
            f"{flow} with {positions}, in place of label words; null without such tokens",
            "nats",
        )
        for matched, positions in _IN_PLACE.items()
        for flow in _FLOWS
    ),
    *(
        f.field(
            f"target_{kind}",
            pa.float64(),
            f"mean significance per token of what the target attends to: {tokens}; null without "
            "such tokens",
            "nats",
        )
        for kind, tokens in _ATTENDED.items()
    ),
    *(
        f.field(f"wp_{source}", pa.float64(), f"part of s_wp that comes from {tokens}", "nats")
        for source, tokens in _SOURCES.items()
    ),
    *(
        f.field(
            f"into_{kind}",
            pa.float64(),
            f"mean over the {tokens} of the mean significance from each earlier token; null "
            "without such tokens",
            "nats",
        )
        for kind, tokens in _INTO.items()
    ),
    keys="model task seed example layer",
)
