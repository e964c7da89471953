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

__version__ = "0.1.0"
