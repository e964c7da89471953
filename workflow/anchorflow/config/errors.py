"""Errors that the user can fix."""

import errno

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

# How torch reports on CPU and GPU that memory ran out, apart from its own error class.
_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "ALLOC_FAILED")

MORE_MEMORY = (
    'choose a smaller model, "dtype: bfloat16" for it, "device: spread" if there are several GPUs, '
    '"recompute: true" if saliency is measured, a machine with more memory, or on a cluster a '
    "larger `memory` of the model"
)

_LONGEST = 3000  # characters of a sentence


class InputError(Exception):
    """Invalid input, reported in one sentence: what is wrong, where, and how to fix it.

    A sentence may quote arbitrary names and values, so unprintable characters are escaped, and
    the middle of a very long sentence is left out.
    """

    def __init__(self, sentence: str) -> None:
        if len(sentence) > _LONGEST:
            sentence = f"{sentence[: _LONGEST * 2 // 3]} … {sentence[-_LONGEST // 3 :]}"
        super().__init__("".join(c if c.isprintable() else _escaped(c) for c in sentence))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that main memory or GPU memory ran out."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _OUT_OF_MEMORY)


def disk_is_full(error: BaseException) -> bool:
    """Whether an error comes from a full disk or an exceeded quota, whichever library raises it."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    return any(f"(os error {code})" in str(error) for code in _FULL)  # from Rust libraries


def full_disk_sentence(where: object) -> str:
    """The sentence that reports a full disk."""
    return (
        f"{where}: no space left on the device; free some space and run again, finished artifacts "
        "are kept."
    )
