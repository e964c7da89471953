"""A page that lists all information-flow pages of one model."""

from collections.abc import Mapping, Sequence
from html import escape

import polars as pl

from anchorflow.plot.flow_page import part, policy


def index_page(model: str, shown: pl.DataFrame, labels: Mapping[str, Sequence[str]]) -> str:
    """A page with a link to every page of one model.

    Parameters
    ----------
    shown : DataFrame
        Table ``shown_prompts`` of all tasks.
    labels : mapping
        Label words of every task, in label order.
    """
    rows = []
    for row in shown.iter_rows(named=True):
        words = [word.strip() for word in labels[row["task"]]]
        link = escape("{task}/{seed}/{example}.html".format(**row))
        name = escape("{task}, seed {seed}, example {example}".format(**row))
        answer = f"{escape(words[row['label']])}</td><td>{escape(words[row['prediction']])}"
        rows.append(f'<tr><td><a href="{link}">{name}</a></td><td>{answer}</td></tr>')
    title, style = escape(f"Information flow: {model}"), part("css")
    none = "" if rows else "<p>No prompt is short enough for the model.</p>\n"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(style)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{none}<table>\n"
        "<tr><th>page</th><th>true label</th><th>prediction</th></tr>\n"
        + "\n".join(rows)
        + "\n</table>\n</main>\n</body>\n</html>\n"
    )
