"""What "early" and "late" mean: the first and the last third of a model's layers."""


def first_third(layers: int) -> slice:
    """The first third of so many layers, rounded down, but at least one."""
    return slice(0, max(1, layers // 3))


def last_third(layers: int) -> slice:
    """The last third of so many layers, rounded down, but at least one."""
    return slice(layers - max(1, layers // 3), layers)
