"""A page that lists all information-flow pages of one model, and can be searched.

It is self-contained as the pages are; without its script, the list is whole.
"""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import polars as pl

from anchorflow.plot.flow_page import part, policy, visible, words_of_groups

_COLUMNS = (
    "page",
    "query",
    "true label",
    "prediction",
    "probability",
    "layer of the largest S_pq",
    "layer of the largest S_wp",
)


def index_page(model: str, shown: pl.DataFrame, labels: Mapping[str, Sequence[str]]) -> str:
    """A page with a link to every page of one model.

    Parameters
    ----------
    shown : DataFrame
        Table ``shown_prompts`` of all tasks.
    labels : mapping
        Label words of every task, in label order.
    """
    rows = [_row(row, labels[row["task"]]) for row in shown.iter_rows(named=True)]
    title, style = escape(f"Information flow: {model}"), part("css")
    script = files("anchorflow.plot").joinpath("flow_page_index.js").read_text(encoding="utf-8")
    none = "" if rows else "<p>No prompt is short enough for the model.</p>\n"
    head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style, script)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{none}"
        '<form id="find" role="search" hidden><label>Search '
        '<input type="search" id="search" placeholder="words of the text, task, or label">'
        '</label><output id="found" for="search"></output></form>\n'
        '<p class="note">S_pq is the mean saliency from label words to the target, S_wp that from '
        "earlier tokens to label words, of this prompt; layers are counted from 0. Wrong "
        "predictions are bold, with the word “wrong”.</p>\n"
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody>\n</table></div>\n</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _row(shown: Mapping[str, Any], labels: Sequence[str]) -> str:
    words = words_of_groups(labels, shown["token_groups"])
    link = escape("{task}/{seed}/{example}.html".format(**shown))
    name = escape("{task}, seed {seed}, example {example}".format(**shown))
    right = shown["label"] == shown["prediction"]
    answer = escape(words[shown["prediction"]])
    told = answer if right else f'<span class="wrong">{answer} (wrong)</span>'
    probability = shown["probabilities"][shown["prediction"]]
    cells = (
        f'<a href="{link}">{name}</a>',
        escape(words[shown["label"]]),
        told,
        f"{probability:.2f}",
        str(shown["strongest_pq"]),
        str(shown["strongest_wp"]),
    )
    first, *rest = (f"<td>{cell}</td>" for cell in cells)
    query = f'<td class="query">{escape(visible(shown["query"].strip()))}</td>'
    return f"<tr>{first}{query}{''.join(rest)}</tr>"
