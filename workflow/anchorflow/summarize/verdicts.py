"""Verdicts on claims, and how an interval decides them."""

SUPPORTED, NOT_SUPPORTED = "supported", "not supported"
INCONCLUSIVE, NOT_TESTED = "inconclusive", "not tested"


def verdict(low: float, high: float) -> str:
    """The verdict on a claim whose effect is above 0 if the claim holds.

    An interval that touches 0 from below, [-0.1, 0] or [0, 0], lies at or below 0, hence not
    supported; one that touches 0 from above, [0, 0.1], is inconclusive, as is an undefined one.
    """
    if low > 0:
        return SUPPORTED
    return NOT_SUPPORTED if high <= 0 else INCONCLUSIVE
