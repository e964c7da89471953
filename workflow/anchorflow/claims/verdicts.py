"""Verdicts on claims, and marks of what they compare; ``claims/decision.py`` has the rules."""

SUPPORTED, UNTRAINED_TOO, MIXED = "supported", "untrained too", "mixed"
NOT_SUPPORTED, UNDECIDED = "not supported", "undecided"
NOT_COMPARED, NOT_MEASURED = "not compared", "not measured"
VERDICTS = (  # as they are sorted
    SUPPORTED,
    UNTRAINED_TOO,
    MIXED,
    NOT_SUPPORTED,
    UNDECIDED,
    NOT_COMPARED,
    NOT_MEASURED,
)
SIGN_OF = {
    SUPPORTED: "✓",
    UNTRAINED_TOO: "○",
    MIXED: "±",
    NOT_SUPPORTED: "✗",
    UNDECIDED: "?",
    NOT_COMPARED: "…",
}

# Of an effect, and of its differences from control and null.
HOLDS, FAILS, UNCLEAR, MISSING, NONE = "holds", "fails", "unclear", "missing", "none"
SIGNS = {HOLDS: "✓", FAILS: "✗", UNCLEAR: "?", MISSING: "…", NONE: "–"}
SIGNS_EXPLAINED = "✓ above 0, ✗ at or below 0, ? interval contains 0, … not measured, – none needed"
