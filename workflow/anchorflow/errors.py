"""The one kind of error that is the user's to mend."""

_LONGEST = 3000  # characters of a sentence


class InputError(Exception):
    """Bad input, told in one sentence: what is wrong, where, and what to do about it.

    A sentence may quote names and values from anywhere, so what a terminal would not show as
    itself is escaped, and the middle of a very long sentence left out.
    """

    def __init__(self, sentence: str) -> None:
        if len(sentence) > _LONGEST:
            sentence = f"{sentence[: _LONGEST * 2 // 3]} … {sentence[-_LONGEST // 3 :]}"
        super().__init__("".join(c if c.isprintable() else _escaped(c) for c in sentence))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
