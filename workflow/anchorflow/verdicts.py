"""What may be said of a claim, and what an interval says of it."""

SUPPORTED, NOT_SUPPORTED = "supported", "not supported"
INCONCLUSIVE, NOT_TESTED = "inconclusive", "not tested"


def verdict(low: float, high: float) -> str:
    """What an interval says of a claim whose effect is above 0 where it holds.

    An interval that touches 0 from below, [-0.1, 0] or [0, 0], is all at or below 0, hence not
    supported; one that touches it from above, [0, 0.1], is inconclusive, as is one without ends.
    """
    if low > 0:
        return SUPPORTED
    return NOT_SUPPORTED if high <= 0 else INCONCLUSIVE
