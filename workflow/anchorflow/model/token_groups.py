"""Labels whose words begin with the same token.

A separate module, without torch, since prompts are built without a model.
"""

from collections.abc import Sequence


def token_groups(label_tokens: Sequence[int]) -> list[int]:
    """For each label, the first label whose word begins with the same token.

    Analyses of first tokens treat the labels of a group as one: the first of them.
    """
    first: dict[int, int] = {}
    return [first.setdefault(token, label) for label, token in enumerate(label_tokens)]
