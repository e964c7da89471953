"""Definition of "early" and "late": the first and the last third of a model's layers."""


def first_third(layers: int) -> slice:
    """The first third of the layers, rounded down, at least one layer."""
    return slice(0, max(1, layers // 3))


def last_third(layers: int) -> slice:
    """The last third of the layers, rounded down, at least one layer."""
    return slice(layers - max(1, layers // 3), layers)
