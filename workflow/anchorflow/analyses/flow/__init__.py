"""Information flow: S_wp, S_pq and S_ww, from the saliency of attention ([A] §2.1)."""

from anchorflow.config.analysis import INFORMATION, Analysis, Measured, Presented, Summary
from anchorflow.config.table import Column, table
from anchorflow.schemas import fields as f

_IN_PLACE = {
    "text": "random tokens of each demonstration's own text",
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
    "first": "the prompt's first token, in no other class",
    "query": "the query before the target",
}

_SOURCES = {
    "text": "the text of the label word's own demonstration",
    "template": "the template of the label word's own demonstration",
    "labels": "label words: those of earlier demonstrations, and earlier tokens of the same one",
    "instruction": "the instruction, 0 without one",
    "rest": "everything else before the label word's own demonstration",
    "first": "the prompt's first token",
}

_FROM_OWN_TEXT = {
    "label": "its label word",
    "text": "later ones of random tokens of the same text, as many as the label word has",
    "before": "the token before its label word",
}

_INTO = {
    "label": "tokens of label words",
    "text": "tokens of the demonstrations' texts",
    "instruction": "tokens of the instruction",
}


_IN_NATS = {
    **_FLOWS,
    **{
        f"{flow}_{matched}": f"{flow} of {positions}"
        for matched, positions in _IN_PLACE.items()
        for flow in _FLOWS
    },
    **{
        f"target_{kind}": f"mean significance for the target, per token, of {tokens}"
        for kind, tokens in _ATTENDED.items()
    },
    **{f"wp_{source}": f"part of s_wp from {tokens}" for source, tokens in _SOURCES.items()},
    **{
        f"own_{name}": f"mean significance from the tokens of a demonstration's text to {tokens}"
        for name, tokens in _FROM_OWN_TEXT.items()
    },
    **{
        f"into_{kind}": f"mean over {tokens} of the mean significance from each earlier token"
        for kind, tokens in _INTO.items()
    },
}

FLOW = table(
    "flow",
    "one per (example, layer), for the loss of the label word's first token with either scoring; a "
    "flow without tokens is null",
    *f.CELL,
    f.EXAMPLE,
    f.LAYER,
    *(Column(name, "float64", words, "nats") for name, words in _IN_NATS.items()),
    keys="model task seed example layer",
)

FLOW_SUMMARY = table(
    "flow_summary",
    "one per (task, layer, flow, scale)",
    *f.OF_TASK,
    f.LAYER,
    Column(
        "flow",
        "string",
        "s_wp, s_pq or s_ww; these with _text, _before or _after, for matched positions in place "
        "of label words; other columns of the table flow; target_share_text and "
        "target_share_template: target_label / (target_label + target_text), or target_template; "
        "into_share: into_label / (into_label + into_text), each 1/2 if label words do not differ "
        "from other tokens",
    ),
    Column(
        "scale",
        "string",
        "absolute: the value itself; proportion: S divided by S_wp + S_pq + S_ww of the same "
        "example and positions; for parts of S_wp, divided by S_wp; for shares, the share",
    ),
    Column("mean", "float64", "mean over examples, then over seeds", "nats, or 1 (proportion)"),
    *f.INTERVAL,
    f.SKIPPED,
    keys="model task layer flow scale",
)


ANALYSIS = Analysis(
    subject="the information flow in {}",
    category=INFORMATION,
    measured=Measured(
        sharded=True, twins=True, message="Measuring saliency of attention for {task} in {model}"
    ),
    summary=Summary({"flow": "flow", "prompts": "prompts"}, ("statistics", "demonstrations")),
    figure=Presented(
        "Information flow over the layers (Fig. 3 of [A])",
        settings=("gradient",),
        untrained={"untrained": "flow"},
    ),
    table=Presented("Shares of the information flows"),
)
