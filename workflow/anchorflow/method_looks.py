"""Name, color and marker of every way to compress, the same in all figures."""

from typing import NamedTuple


class Look(NamedTuple):
    """How a method is drawn; colors are from the Okabe-Ito palette."""

    name: str
    color: str
    marker: str
    filled: bool = True

    @property
    def size(self) -> float:
        """Of the marker, in points."""
        return 7 if self.marker in "*P" else 4.5

    @property
    def face(self) -> str:
        """Color of the marker's inside."""
        return self.color if self.filled else "white"


# Filled where [A] has the method too.
LOOKS = {
    "full_prompt": Look("full prompts", "#999999", "X"),
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
    "snapkv": Look("SnapKV", "#CC79A7", "D", filled=False),
}
