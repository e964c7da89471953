"""Words that look alike but are not the same characters, and characters that are not seen."""

import re
import unicodedata
from typing import Any

# NUL and other control characters, zero-width characters and those that set a direction. Joiners
# (U+200C, U+200D) stay: they change how neighbors look, as in emoji and Persian.
INVISIBLE = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1e\x7f-\x9f\u00ad\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]"
)

SEPARATING = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")  # those that end a line or a part


def looks(word: str) -> str:
    """What is seen of a word, without its case: compatible characters and composition are one."""
    return unicodedata.normalize("NFKC", INVISIBLE.sub("", word)).strip().casefold()


def code_points(word: str) -> str:
    """The characters of a word outside ASCII, as ``U+00E9 U+200B``; ``ASCII`` if there is none."""
    return " ".join(f"U+{ord(c):04X}" for c in word if not c.isascii() or ord(c) < 32) or "ASCII"


def spellings(value: Any) -> tuple[str, ...]:
    """How a value may be written in a file: truth values in any case, whole floats as integers."""
    if isinstance(value, bool):
        return str(value), str(value).lower(), str(value).upper()
    if isinstance(value, float) and value.is_integer():
        return str(value), str(int(value))
    return (str(value),)
