"""Definition of "early" and "late", and of the layers that are cut together."""

MOST_SINGLE_LAYERS = 32  # in deeper models, only every other layer is cut alone


def first_third(layers: int) -> slice:
    """The first third of the layers, rounded down, at least one layer."""
    return slice(0, max(1, layers // 3))


def last_third(layers: int) -> slice:
    """The last third of the layers, rounded down, at least one layer."""
    return slice(layers - max(1, layers // 3), layers)


def bands_of(name: str, depth: int) -> list[tuple[str, int, int]]:
    """Name, first layer, and number of layers of the bands ``single``, ``thirds``, or ``all``.

    The middle third is what :func:`first_third` and :func:`last_third` leave.
    """
    if name == "all":
        return [("all", 0, depth)]
    if name == "single":
        step = 1 if depth <= MOST_SINGLE_LAYERS else 2
        return [("single", layer, 1) for layer in range(0, depth, step)]
    first, last = first_third(depth), last_third(depth)
    thirds = {"first": first, "middle": slice(first.stop, last.start), "last": last}
    found = [(name, at.start, at.stop - at.start) for name, at in thirds.items()]
    return [band for band in found if band[2] > 0]
