"""One page per prompt, with the information flow as arcs between tokens ([A] Fig. 1).

Pages are self-contained: they include style, script, and data, and their content security policy
allows nothing else to load or run. Texts are embedded as data, never as markup; ``plot.js``
displays them as plain text.
"""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any
from unicodedata import category

import numpy as np
import polars as pl

ARCS = 200  # per flow and view, the most that plot.js draws; keeps pages small
READ = 10  # tokens per head, those with the most attention
FLOWS = ("wp", "pq", "ww")
_NAMES = ("earlier token → label word", "label word → target", "all other pairs")
# As in ``SHOWN_KNOCKOUTS``: of the three flows, and of random keys with the attention of S_pq.
_EDGES = ("before_to_label", "label_to_target", "others", "equal_to_target")
_SYMBOLS = ("S_wp", "S_pq", "S_ww")


def flow_pages(
    saliency: pl.DataFrame,
    kept_prompts: pl.DataFrame,
    cuts: pl.DataFrame,
    heads: pl.DataFrame,
    prompts: pl.DataFrame,
    labels: Sequence[str],
    colors: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """The pages of all prompts in ``kept_prompts``, as pairs of file name and HTML.

    ``colors`` are those of S_wp, S_pq, and S_ww, as in the figures.
    """
    positions = prompts.drop("label")
    for row in kept_prompts.join(positions, on=["demonstrations", "example"]).iter_rows(named=True):
        of_prompt, of_cuts, of_heads = (
            table.filter(pl.col("example") == row["example"]) for table in (saliency, cuts, heads)
        )
        matrices = saliency_matrices(of_prompt.sort("layer", "token"))
        numbers = of_prompt["layer"].unique().sort().to_list()
        data = page_data(row, matrices, labels, colors, of_cuts, numbers)
        data["heads"] = heads_data(row, of_heads, labels)
        title = "Information flow: {model}, {task}, seed {seed}, test text {example}".format(**row)
        yield f"{row['example']}.html", page(title, data)


def saliency_matrices(saliency: pl.DataFrame) -> np.ndarray:
    """I_l of one example as [L, T, T], zero on and above the diagonal.

    The rows are ordered by layer and token.
    """
    layers, tokens = saliency["layer"].n_unique(), saliency["token"].n_unique()
    matrices = np.zeros((layers, tokens, tokens))
    below = np.tril(np.ones((tokens, tokens), bool), -1)
    matrices[:, below] = (
        saliency["significance"].explode(empty_as_null=False).to_numpy().reshape(layers, -1)
    )
    return matrices


def flow_masks(prompt: Mapping[str, Any]) -> np.ndarray:
    """Masks of the pairs (i, j) in C_wp, C_pq, and C_ww: [3, T, T], bool.

    All tokens of a label word count as p_k.

    Source: Wang et al. 2023, eq. 2-4.
    """
    tokens, target = prompt["tokens"], prompt["target_position"]
    is_label = np.zeros(tokens, bool)
    for first, end in zip(prompt["label_positions"], prompt["label_ends"], strict=True):
        is_label[first:end] = True
    is_target = np.arange(tokens) == target
    pairs = np.tril(np.ones((tokens, tokens), bool), -1)
    to_words = pairs & is_label[:, None]
    to_target = pairs & is_target[:, None] & is_label
    return np.stack([to_words, to_target, pairs & ~to_words & ~to_target])


def words_of_groups(labels: Sequence[str], groups: Sequence[int]) -> list[str]:
    """Each label's word, joined by "or" with those that share its first token.

    Saliency follows first tokens, so such labels are one class.

    ``groups`` are the ``token_groups`` of the prompt.
    """
    words: dict[int, list[str]] = {}
    for label, group in zip(labels, groups, strict=True):
        words.setdefault(group, []).append(label.strip())
    return [" or ".join(words[group]) for group in groups]


def page_data(
    prompt: Mapping[str, Any],
    matrices: np.ndarray,
    labels: Sequence[str],
    colors: Sequence[str],
    cuts: pl.DataFrame,
    numbers: Sequence[int],
) -> dict[str, Any]:
    """The data of a page, as ``plot.js`` reads them.

    Views are the single layers, and the means over the first third of the layers, the last third,
    and all layers. A view has the ``ARCS`` strongest arcs [j, i, significance] of each flow, the
    strongest first.

    ``prompt`` is a row of ``PROMPTS`` joined with its row of ``SHOWN_PROMPTS``, and ``matrices``,
    [L, T, T], are I_l(i, j), zero on and above the diagonal. For each flow and each layer that was
    cut, the page gets the change of the loss, and the prediction if it changes; so for random keys.
    ``numbers`` are those of the layers in the model.
    """
    layers, third = len(matrices), max(1, len(matrices) // 3)
    some = "layer" if third == 1 else f"{third} layers"
    averaged = {
        "shallow": (f"first {some}", range(third)),
        "deep": (f"last {some}", range(layers - third, layers)),
        "all": (f"all {layers} layers", range(layers)),
    }
    masks = flow_masks(prompt)
    single = [
        _view(f"layer {number}", matrix, masks)
        for number, matrix in zip(numbers, matrices, strict=True)
    ]
    blocks = [*prompt["demonstration_starts"], prompt["query_start"]]
    words = words_of_groups(labels, prompt["token_groups"])
    return {
        "facts": {
            "demonstrations": prompt["demonstrations"].replace("_", " "),
            "true label": words[prompt["label"]],
            "prediction": f"{words[prompt['prediction']]}, with probability "
            f"{prompt['probabilities'][prompt['prediction']]:.2f}",
        },
        "texts": prompt["texts"],
        "label_positions": prompt["label_positions"],
        "label_ends": prompt["label_ends"],
        "target": prompt["target_position"],
        "format": prompt["format_positions"],
        "instruction_end": prompt["instruction_end"],
        "fields": prompt["field_names"],
        "field_starts": prompt["field_starts"],
        "field_ends": prompt["field_ends"],
        "blocks": blocks,
        "flows": [
            {"name": name, "symbol": symbol, "color": color, "pairs": int(mask.sum())}
            for name, symbol, color, mask in zip(_NAMES, _SYMBOLS, colors, masks, strict=True)
        ],
        "layers": single,
        "numbers": list(numbers),
        "opens": list(numbers).index(prompt["strongest_pq"]),
        "cuts": [_cuts(cuts.filter(pl.col("edges") == e), prompt, words, numbers) for e in _EDGES],
        "averages": {
            key: _view(name, matrices[chosen].mean(0), masks)
            for key, (name, chosen) in averaged.items()
        },
    }


def heads_data(
    prompt: Mapping[str, Any], heads: pl.DataFrame, labels: Sequence[str]
) -> dict[str, Any] | None:
    """What the heads read and write, as ``plot.js`` reads it; None without heads.

    These are the ``words`` of the classes, the true ``label`` among them, and for each layer and
    head its sums over all tokens by class, in logits, and the ``READ`` tokens with the most
    attention as [token, attention, effects by class].
    """
    if heads.is_empty():
        return None
    classes = sorted(set(prompt["token_groups"]))
    words = words_of_groups(labels, prompt["token_groups"])
    layers, count = heads["layer"].n_unique(), heads["head"].n_unique()
    ordered = heads.sort("layer", "head", "token")
    attention = ordered["attention"].to_numpy().reshape(layers, count, -1)
    writes = np.array(ordered["writes"].to_list()).reshape(*attention.shape, len(classes))
    most = np.argsort(-attention, axis=-1, kind="stable")[..., :READ]
    return {
        "words": [words[label] for label in classes],
        "label": classes.index(prompt["token_groups"][prompt["label"]]),
        "totals": [[_rounded(of_head) for of_head in layer] for layer in writes.sum(2)],
        "read": [
            [
                [
                    [int(token), *_rounded(alphas[[token]]), _rounded(written[token])]
                    for token in tokens
                ]
                for tokens, alphas, written in zip(*of_layer, strict=True)
            ]
            for of_layer in zip(most, attention, writes, strict=True)
        ],
    }


def _cuts(
    cuts: pl.DataFrame, prompt: Mapping[str, Any], words: Sequence[str], numbers: Sequence[int]
) -> list[list[Any] | None]:
    """For each layer, the change of the loss and the new prediction, if any; None if not cut."""
    found: list[list[Any] | None] = [None] * len(numbers)
    for row in cuts.iter_rows(named=True):
        other = row["prediction"] != prompt["prediction"]
        found[numbers.index(row["layer"])] = [
            *_rounded([row["loss_change"]]),
            words[row["prediction"]] if other else None,
        ]
    return found


def _view(name: str, matrix: np.ndarray, masks: np.ndarray) -> dict[str, Any]:
    """Data of one matrix [T, T]: mean and strongest arcs per flow, sums of rows and of columns."""
    return {
        "name": name,
        "means": _rounded([matrix[mask].mean() if mask.any() else 0 for mask in masks]),
        "received": _rounded(matrix.sum(1)),
        "sent": _rounded(matrix.sum(0)),
        "arcs": [_strongest(np.where(mask, matrix, 0)) for mask in masks],
    }


def _strongest(matrix: np.ndarray) -> list[list[int | float]]:
    """The largest entries above 0 as [j, i, value]; ties are in row order."""
    highest = matrix.max(1)
    least = np.partition(highest, -ARCS)[-ARCS] if len(matrix) > ARCS else 0
    rows = np.flatnonzero((highest > 0) & (highest >= least))  # all others have smaller entries
    entries = matrix[rows].ravel()
    above = np.flatnonzero(entries > 0)
    order = above[np.argsort(-entries[above], kind="stable")][:ARCS]
    to, from_ = rows[order // len(matrix)], order % len(matrix)
    arcs = zip(from_.tolist(), to.tolist(), _rounded(entries[order]), strict=True)
    return [list(arc) for arc in arcs]


def _rounded(values: Sequence[float] | np.ndarray) -> list[float]:
    # Four digits are more than the page displays, and keep it small.
    return [float(f"{value:.4g}") for value in values]


@dataclass(frozen=True)
class Controls:
    """What a page that a server answers has in addition: markup, style, and a script."""

    markup: str
    style: str
    script: str


def page(title: str, data: Mapping[str, Any], controls: Controls | None = None) -> str:
    """The HTML of one self-contained page; one with ``controls`` may ask where it comes from."""
    style, script = part("css"), part("js")
    style += controls.style if controls else ""
    scripts = [script, controls.script] if controls else [script]
    return Template(part("html")).substitute(
        title=escape(title),
        policy=policy(style, *scripts, asks=controls is not None),
        style=style,
        scripts="\n".join(f"<script>{each}</script>" for each in scripts),
        controls=controls.markup if controls else "",
        data=_inert(data),
    )


def part(kind: str) -> str:
    return (files("anchorflow.analyses.flow_page") / f"plot.{kind}").read_text(encoding="utf-8")


def policy(style: str, *scripts: str, asks: bool = False) -> str:
    """A content security policy that allows this style and scripts, by their hashes, and no more.

    If it ``asks``, a page may also fetch from where it comes.
    """
    allowed = f"default-src 'none'; style-src '{_hash(style)}'; "
    if scripts:
        allowed += "script-src {}; ".format(" ".join(f"'{_hash(script)}'" for script in scripts))
    if asks:
        allowed += "connect-src 'self'; "
    return allowed + "base-uri 'none'; form-action 'none'"


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _inert(data: Mapping[str, Any]) -> str:
    """JSON in ASCII that can neither close its HTML element nor open another one."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")


def visible(text: str) -> str:
    """A text with U+FFFD for invisible characters and those that change its direction.

    Line breaks remain.
    """
    return "".join(
        character if character == "\n" or category(character)[0] not in "C" else "\ufffd"
        for character in text
    )
