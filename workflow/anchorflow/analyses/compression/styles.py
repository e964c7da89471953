"""Name, color, and marker of every compression method, the same in all figures.

A method that is not listed is called by its file's name and gets an unused color and marker.
"""

from collections.abc import Iterable, Mapping
from itertools import cycle, product
from typing import Any, NamedTuple

from anchorflow.config.registry import entries


class Look(NamedTuple):
    """How a method is plotted; colors are from the Okabe-Ito palette."""

    name: str
    color: str
    marker: str
    filled: bool = True

    @property
    def marks(self) -> dict[str, Any]:
        """Color and marker as matplotlib takes them."""
        size = 7 if self.marker in "*P" else 4.5  # stars and plus signs look smaller
        face = self.color if self.filled else "white"
        marker = {"marker": self.marker, "markersize": size, "markerfacecolor": face}
        return {"color": self.color, **marker}


_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("s", "^", "p", "h", "<", ">", "d")


def with_defaults(looks: Mapping[str, Look], methods: Iterable[str]) -> dict[str, Look]:
    """The looks, followed by an unused one for every method that has none.

    With more methods than combinations of color and marker, these repeat.
    """
    taken = {look[1:] for look in looks.values()}
    free = [
        look
        for marker, color in product(_MARKERS, _COLORS)
        if (look := Look("", color, marker, filled=False))[1:] not in taken
    ]
    others = (method for method in methods if method not in looks)
    given = {
        method: look._replace(name=method.replace("_", " "))
        for method, look in zip(others, cycle(free), strict=False)
    }
    return {**looks, **given}


# Markers are filled for methods that [A] reports too.
_LISTED = {
    "full_prompt": Look("full prompts", "#999999", "s"),
    "full": Look("everything", "#000000", "s"),
    "reweighted": Look("everything, re-weighted", "#000000", "P"),
    "hidden_anchor": Look("anchors", "#D55E00", "o"),
    "reweighted_anchor": Look("anchors, re-weighted", "#D55E00", "*"),
    "text_anchor": Look("anchors as text", "#CC79A7", "^"),
    "hidden_random": Look("random for label words", "#0072B2", "o"),
    "hidden_random_oracle": Look("best random, by oracle", "#56B4E9", "d"),
    "hidden_random_top": Look("best random, held out", "#56B4E9", "o", filled=False),
    "label_only": Look("label words alone", "#E69F00", "<", filled=False),
    "format_only": Look("formatting alone", "#E69F00", ">", filled=False),
    "recent": Look("last tokens", "#999999", "v", filled=False),
    "attention_sink": Look("first four and last", "#0072B2", "v", filled=False),
    "even": Look("even distances", "#999999", "D", filled=False),
    "key_norm": Look("key norm", "#009E73", "v", filled=False),
    "key_diff": Look("key difference", "#009E73", "D", filled=False),
    "tova": Look("TOVA", "#CC79A7", "v", filled=False),
    "until_layer": Look("everything in the first layers", "#000000", "D", filled=False),
    "first_only": Look("no demonstrations", "#999999", "d", filled=False),
    "snapkv": Look("SnapKV", "#CC79A7", "D", filled=False),
}
LOOKS = with_defaults(_LISTED, entries("analyses/compression/methods"))
