"""Verdicts on claims; ``claims/decision.py`` has the rules."""

SUPPORTED, NOT_SUPPORTED = "supported", "not supported"
INCONCLUSIVE, NOT_TESTED = "inconclusive", "not tested"
