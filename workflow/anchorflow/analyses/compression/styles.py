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


# In groups of a color: what nothing is left out of, anchors, other tokens by their role, whole
# demonstrations, and tokens by position, by keys, by attention, or by attention to come. Markers
# are filled for methods that [A] reports too.
_LISTED = {
    "full_prompt": Look("full prompts", "#999999", "s"),
    "full": Look("everything", "#000000", "s"),
    "reweighted": Look("everything, re-weighted", "#000000", "P"),
    "until_layer": Look("first layers alone", "#000000", "D", filled=False),
    "hidden_anchor": Look("anchors", "#D55E00", "o"),
    "reweighted_anchor": Look("anchors, re-weighted", "#D55E00", "*"),
    "text_anchor": Look("anchors as text", "#D55E00", "^"),
    "hidden_random": Look("random for label words", "#E69F00", "o"),
    "hidden_random_oracle": Look("best random, by oracle", "#E69F00", "d"),
    "hidden_random_top": Look("best random, held out", "#E69F00", "o", filled=False),
    "label_only": Look("label words alone", "#E69F00", "<", filled=False),
    "format_only": Look("formatting alone", "#E69F00", ">", filled=False),
    "text_fewer_balanced": Look("fewer, balanced", "#0072B2", "s", filled=False),
    "text_fewer_random": Look("fewer, random", "#0072B2", "o", filled=False),
    "text_fewer_nearest": Look("fewer, nearest", "#0072B2", "^", filled=False),
    "hidden_fewer_balanced": Look("fewer, balanced, hidden", "#56B4E9", "s", filled=False),
    "hidden_fewer_random": Look("fewer, random, hidden", "#56B4E9", "o", filled=False),
    "hidden_fewer_nearest": Look("fewer, nearest, hidden", "#56B4E9", "^", filled=False),
    "recent": Look("last tokens", "#999999", "v", filled=False),
    "attention_sink": Look("first four and last", "#999999", "^", filled=False),
    "even": Look("even distances", "#999999", "D", filled=False),
    "key_norm": Look("key norm", "#009E73", "v", filled=False),
    "key_diff": Look("key difference", "#009E73", "D", filled=False),
    "tova": Look("TOVA", "#CC79A7", "v", filled=False),
    "tova_by_value": Look("TOVA, by value", "#CC79A7", "^", filled=False),
    "snapkv": Look("SnapKV", "#CC79A7", "D", filled=False),
    "snapkv_by_value": Look("SnapKV, by value", "#CC79A7", "s", filled=False),
    "pyramidkv": Look("PyramidKV", "#CC79A7", "p", filled=False),
    "kvzip": Look("KVzip", "#332288", "D", filled=False),
    "kvzip_uniform": Look("KVzip, uniform", "#332288", "s", filled=False),
    "expected_attention": Look("Expected Attention", "#332288", "h", filled=False),
    "first_only": Look("no demonstrations", "#999999", "d", filled=False),
}
LOOKS = with_defaults(_LISTED, entries("analyses/compression/methods"))
