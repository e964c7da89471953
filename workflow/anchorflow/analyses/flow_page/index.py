"""A searchable page that lists all information-flow pages for one model.

It is self-contained like the pages; without its script, it lists all of them.
"""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import polars as pl

from anchorflow.analyses.flow_page.plot import part, policy, visible, words_of_groups

_COLUMNS = (
    "page",
    "query",
    "true label",
    "prediction",
    "probability",
    "layer of the largest S_pq",
    "layer of the largest S_wp",
)


def index_page(model: str, prompts: pl.DataFrame, labels: Mapping[str, Sequence[str]]) -> str:
    """The HTML of a page with a link to every information-flow page for one model."""
    wrong = pl.col("label") != pl.col("prediction")  # last, as they show no learning
    ordered = prompts.sort(wrong, maintain_order=True)
    rows = [_row(row, labels[row["task"]]) for row in ordered.iter_rows(named=True)]
    title, style = escape(f"Information flow: {model}"), part("css")
    script = (files("anchorflow.analyses.flow_page") / "index.js").read_text(encoding="utf-8")
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
        '<p class="note">For each prompt, S_pq is the mean saliency from label words to the '
        "target, and S_wp that from earlier tokens to label words; layers are counted from 0. "
        "Wrong predictions are bold and marked “wrong”.</p>\n"
        f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody>\n</table></div>\n</main>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _row(prompt: Mapping[str, Any], labels: Sequence[str]) -> str:
    words = words_of_groups(labels, prompt["token_groups"])
    link = escape("{task}/{seed}/{example}.html".format(**prompt))
    name = escape("{task}, seed {seed}, test text {example}".format(**prompt))
    right = prompt["label"] == prompt["prediction"]
    answer = escape(words[prompt["prediction"]])
    prediction = answer if right else f'<span class="wrong">{answer} (wrong)</span>'
    probability = prompt["probabilities"][prompt["prediction"]]
    cells = (
        f'<a href="{link}">{name}</a>',
        escape(words[prompt["label"]]),
        prediction,
        f"{probability:.2f}",
        str(prompt["strongest_pq"]),
        str(prompt["strongest_wp"]),
    )
    first, *rest = (f"<td>{cell}</td>" for cell in cells)
    query = f'<td class="query">{escape(visible(prompt["query"].strip()))}</td>'
    return f"<tr>{first}{query}{''.join(rest)}</tr>"
