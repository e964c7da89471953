"""Measurements of how a language model learns from the demonstrations in its prompt.

Axes, written the same way everywhere: ``B`` examples in a batch, ``L`` layers, ``H`` query heads,
``G`` key-value heads, ``T`` tokens, ``P`` prefix tokens, ``D`` head dimension, ``C`` label words
(classes), ``N`` demonstrations. Index symbols follow the papers: ``p_k`` is the position of the
k-th demonstration's label word, ``q`` the target position, ``A_{h,l}`` the attention matrix of
head h in layer l.

Papers: [A] Wang et al., "Label Words are Anchors", EMNLP 2023.
[K] Han et al., "Understanding Emergent In-Context Learning from a Kernel Regression
Perspective", TMLR 2025.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["InContextClassifier", "Prompt", "Run", "ask"]  # __init__.pyi has their types

_MODULES = {
    "InContextClassifier": "anchorflow.classifier",
    "Prompt": "anchorflow.one_prompt.prompt",
    "Run": "anchorflow.finished_run",
    "ask": "anchorflow.classifier",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is asked for: the rules import this package without torch."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
