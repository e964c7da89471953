"""Verdicts on claims, and marks of what they compare; ``claims/decision.py`` has the rules."""

SUPPORTED, NOT_SUPPORTED, UNDECIDED = "supported", "not supported", "undecided"
NOT_COMPARED, NOT_MEASURED = "not compared", "not measured"
VERDICTS = (SUPPORTED, NOT_SUPPORTED, UNDECIDED, NOT_COMPARED, NOT_MEASURED)  # as they are sorted

# Of an effect, and of its differences from control and null.
HOLDS, FAILS, UNCLEAR, MISSING, NONE = "holds", "fails", "unclear", "missing", "none"
SIGNS = {HOLDS: "✓", FAILS: "✗", UNCLEAR: "?", MISSING: "…", NONE: "–"}
SIGNS_EXPLAINED = "✓ above 0, ✗ at or below 0, ? interval contains 0, … not measured, – none needed"
